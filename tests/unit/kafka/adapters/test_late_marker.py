"""A producer fence whose marker lands late: the end that is told lies behind it, and behind what came before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from tanist.domain.errors import ConnectionLost, TanistError
from tanist.domain.names import MirrorPartition
from tanist.kafka.adapters import producer_fencing
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.ports.clock import Deadline
from tests.builders import IDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.kafka.wire.requests import Markers

AT, BY = MirrorPartition("orders", 0), Deadline(1e9)


class Log:
    """One partition. The connection is lost while a marker is under way; it lands once the end has been told."""

    def __init__(self, *, loses: int) -> None:
        self.end, self.loses = 100, loses
        self.fenced, self.on_its_way = set[int](), set[int]()

    def write_markers(
        self, _router: object, markers: Mapping[MirrorPartition, Markers], _by: Deadline
    ) -> dict[MirrorPartition, TanistError | None]:
        (wanted,) = markers.values()
        if wanted.coordinator_epochs[0] < 0:  # the question, of the epoch before
            fenced = wanted.producer_id in self.fenced
            return {AT: InvalidProducerEpoch("fenced") if fenced else TransactionCoordinatorFenced("open")}
        if self.loses:
            self.loses -= 1
            self.on_its_way.add(wanted.producer_id)
            return {AT: ConnectionLost("reset by peer")}
        self._append(wanted.producer_id)
        return {AT: None}

    def settled_ends(self, _router: object, partitions: Iterable[MirrorPartition], _by: Deadline) -> dict[Any, int]:
        told = dict.fromkeys(partitions, self.end)
        for late in sorted(self.on_its_way):
            self.end += 10  # records of an old writer, which the marker does not keep off yet
            self._append(late)
        self.on_its_way.clear()
        return told

    def _append(self, producer_id: int) -> None:
        self.end += 1
        self.fenced.add(producer_id)


@pytest.mark.parametrize("loses", [0, 1, 2])
def test_the_end_of_a_fenced_log_lies_behind_a_marker_that_landed_late(
    loses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(loses=loses)
    monkeypatch.setattr(producer_fencing, "write_markers", log.write_markers)
    monkeypatch.setattr(producer_fencing, "settled_ends", log.settled_ends)
    router: Any = None
    found = KafkaProducerFencing(router).fence_producers({AT: IDS}, BY)
    assert found == {AT: log.end}


def test_a_fence_whose_markers_are_never_answered_is_not_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(loses=1_000)
    monkeypatch.setattr(producer_fencing, "write_markers", log.write_markers)
    monkeypatch.setattr(log, "_append", lambda _producer_id: None)
    monkeypatch.setattr(producer_fencing, "settled_ends", log.settled_ends)
    router: Any = None
    assert isinstance(KafkaProducerFencing(router).fence_producers({AT: IDS}, BY)[AT], TanistError)
