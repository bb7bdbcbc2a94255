"""What no ordinary client does: markers, foreign records, moved replicas."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tanist.domain import appending
from tanist.domain.appending import Move
from tanist.domain.copying import Append
from tanist.domain.errors import ConnectionLost, TanistError
from tanist.domain.names import BrokerId
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import ActiveProducer, Markers
from tests.kafka.fetcher.rig import soon, until, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from tanist.domain.appending import Pipeline
    from tanist.domain.names import MirrorPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tests.kafka.fetcher.rig import Rig, RigCluster


def producers(side: RigCluster, at: MirrorPartition) -> dict[int, ActiveProducer]:
    """Who the leader remembers, by producer id."""
    return {p.producer_id: p for p in value(requests.describe_producers(side.router, [at], soon())[at])}


def forget_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make workers that fill nothing and do not ask the map: what they append behind a gap lands too low."""
    real = appending.next_move

    def careless(pipeline: Pipeline[BatchHeader, memoryview], oldest: int) -> Move:
        move, first = real(pipeline, oldest), pipeline.steps[0]
        return Move.APPEND if isinstance(first, Append) and move in {Move.EXTEND_MAP, Move.FILL_GAP} else move

    monkeypatch.setattr(appending, "markers_to_write", lambda _until, _end: 0)
    monkeypatch.setattr("tanist.fetcher.engines.batches.appending.next_move", careless)


def surplus(rig: Rig, at: MirrorPartition, count: int = 1, *, later: int = 0) -> None:
    """Fillers that nobody asked for, as a late request of a former owner leaves them.

    `later`: by how much their epoch is above that of the fillers before them.
    """
    known = producers(rig.destination, at).get(rig.spec.marker_id)
    end = rig.destination.end(at)
    epoch = max(known.producer_epoch, 0) + later if known else 0
    markers = Markers(rig.spec.marker_id, epoch, range(end, end + count))
    assert requests.write_markers(rig.destination.router, {at: markers}, soon()) == {at: None}
    until(lambda: rig.destination.end(at) == end + count, 20)


class Wires:
    """Between the copier and its fills: `next_fill` takes the place of one request, then all is as before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real: Any = requests.write_markers
        self.calls: list[Mapping[MirrorPartition, Markers]] = []
        self.next_fill: Any = None
        monkeypatch.setattr(requests, "write_markers", self._write)

    def _write(
        self, router: Router, markers: Mapping[MirrorPartition, Markers], by: Deadline
    ) -> Answers[MirrorPartition, None]:
        if markers:
            self.calls.append(markers)
            instead, self.next_fill = self.next_fill, None
            if instead is not None:
                answer: Answers[MirrorPartition, None] = instead(router, markers, by)
                return answer
        through: Answers[MirrorPartition, None] = self.real(router, markers, by)
        return through


def unanswered(markers: Mapping[MirrorPartition, Markers]) -> Answers[MirrorPartition, None]:
    why: TanistError = ConnectionLost("the answer never came")
    return dict.fromkeys(markers, why)


def reassign(side: RigCluster, at: MirrorPartition, brokers: list[int]) -> None:
    """Move a partition to other replicas, and wait until it is there."""
    alter = importlib.import_module("kafka.protocol.admin").AlterPartitionReassignmentsRequest
    side.router.refresh([at.topic], soon())
    assert side.router.controller is not None
    connection = side.router.connection(BrokerId(side.router.controller), soon())
    topic = alter.ReassignableTopic
    part = topic.ReassignablePartition(partition_index=at.partition, replicas=brokers)
    request = alter(timeout_ms=10_000, topics=[topic(name=at.topic, partitions=[part])], version=0)
    answer = connection.call(request, soon())
    assert [p.error_code for t in answer.responses for p in t.partitions] == [0], answer

    def there() -> bool:
        side.router.refresh([at.topic], soon())
        found = side.router.topics()[at.topic].partitions[at.partition]
        return list(found.replicas) == brokers and found.leader in brokers and set(found.isr) == set(brokers)

    until(there, 20)
