"""Mirror partitions whose end a cleaner has removed: gap markers that may be surplus, and expired tombstones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.compaction import Holes
from tanist.domain.names import EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import STATE_TOPIC, OffsetRangeWritten
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, MemoryStateStore
from tests.kafka.fetcher.copier import SLICE
from tests.kafka.fetcher.raw import producers, surplus
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until, value
from tests.kafka.fetcher.test_compacted import COMPACT, COPY, cleaned, committed, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.ports.clock import Deadline
    from tests.conftest import ClusterFactory

__all__ = ["cleaned"]
SOON_FORGOTTEN = {"delete.retention.ms": "100"}
KEYS = [b"key %d" % number for number in range(20)]
TWO_DAYS_MS = 2 * 86_400_000


def log_of(side: RigCluster, at: MirrorPartition) -> list[BatchHeader]:
    """Of all batches, also of those that hold nothing any more."""
    found: list[BatchHeader] = []
    end = side.end(at)
    while (offset := found[-1].next_offset if found else 0) < end:
        limits = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
        answer = value(requests.fetch(side.router, {at: offset}, soon(), limits, 1 << 20)[at])
        found += [header for header, _ in walk(answer.records) if header.base_offset >= offset]
    return found


def removed_before_markers(side: RigCluster, at: MirrorPartition) -> int:
    """How many offsets between the last data batch and the first marker behind it hold no batch."""
    headers = log_of(side, at)
    data_until = max((header.next_offset for header in headers if not header.is_control), default=0)
    return next((h.base_offset - data_until for h in headers if h.base_offset >= data_until), 0)


def store_progress(rig: Rig, at: MirrorPartition, copied_until: int) -> None:
    """As a worker stores it every few seconds."""
    end = SourceOffset(copied_until)
    known = SourceEnd(SourcePartition(*at), end, end, copied_until=end)
    rig.store.append([SourceEnds(mirror=rig.spec.mirror, chunk=SLICE, ends=(known,), at=EpochMs(0))], soon())


@pytest.mark.parametrize("progress", ["stored", "unknown"])
def test_records_are_not_skipped_where_a_cleaner_has_removed_surplus_markers(
    cleaned: Rig, topic_name: str, progress: str
) -> None:
    """The first record behind them was taken for copied: below a marker that was left, everything counted as copied.

    Of a producer id that it knows, a broker keeps all markers of the latest epoch, emptied, and no others.
    """
    cleaned.destination.create(topic_name, config=COPY | SOON_FORGOTTEN)
    [at] = cleaned.source.create(topic_name, config=COMPACT)
    producer = cleaned.source.producer()
    for key in KEYS:
        producer.produce(topic_name, b"first", key)
    producer.flush(20)
    with cleaned.copier([at], holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
        if progress == "stored":
            store_progress(cleaned, at, copier.reports()[at].position or 0)

    def surplus_is_removed() -> bool:
        surplus(cleaned, at, later=1)
        return removed_before_markers(cleaned.destination, at) > 0

    until(surplus_is_removed, 60)
    for key in KEYS:
        producer.produce(topic_name, b"second", key)
    producer.flush(20)
    with cleaned.copier([at], holes=Holes.COPIES, name="w2") as copier:
        cleaned.copied(copier)
    originals, copies = (committed(side, [at])[at] for side in (cleaned.source, cleaned.destination))
    assert state(copies) == state(originals) == dict.fromkeys(KEYS, b"second")
    offsets = cleaned.offsets(at)
    assert {offsets.locate(SourceOffset(row.offset)) for row in originals[-len(KEYS) :]} == {
        row.offset for row in copies[-len(KEYS) :]
    }


@pytest.mark.long
def test_tombstones_that_a_cleaner_has_removed_are_not_copied_again_at_other_offsets(
    cleaned: Rig, topic_name: str, cluster_factory: ClusterFactory
) -> None:
    """The broker has forgotten the producer id of such old records, so not even an empty batch of them is left."""
    hasty = {"producer.id.expiration.check.interval.ms": "500", "log.cleaner.backoff.ms": "200"}
    west = RigCluster(cluster_factory("forgets", brokers=1, properties=hasty))
    rig = Rig(cleaned.source, west)
    rig.destination.create(topic_name, config=COPY | SOON_FORGOTTEN)
    [at] = rig.source.create(topic_name, config=COMPACT)
    producer, when = rig.source.producer(), SystemClock().now() - TWO_DAYS_MS
    producer.produce(topic_name, b"stays", b"stays", timestamp=when)
    for moment, values in enumerate((b"value", None)):
        for key in KEYS:
            producer.produce(topic_name, values, key, timestamp=when + moment * 5_000)
        producer.flush(20)
    with rig.copier([at], holes=Holes.COPIES) as copier:
        rig.copied(copier)

        def tombstones_are_removed() -> bool:
            rig.source.transaction(at, [b"aborted"], commit=False)
            rig.copied(copier)
            return rig.spec.data_id not in producers(west, at) and removed_before_markers(west, at) > 0

        until(tombstones_are_removed, 90)
        store_progress(rig, at, copier.reports()[at].position or 0)
    producer.produce(topic_name, b"later", b"later")
    producer.flush(20)
    with rig.copier([at], holes=Holes.COPIES, name="w2") as copier:
        rig.copied(copier)
    assert rig.offsets(at).runs == ()
    assert rig.destination.end(at) == rig.source.end(at)
    assert state(committed(west, [at])[at]) == state(committed(rig.source, [at])[at])
    west.close()


class Forgetful(MemoryStateStore):
    """Of a worker that dies before it has written an offset shift."""

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        return super().append([each for each in records if not isinstance(each, OffsetRangeWritten)], by)


@pytest.mark.parametrize("holes", [Holes.COPIES, Holes.MARKERS])
def test_a_worker_that_dies_before_it_writes_a_shift_leaves_a_log_that_the_next_one_continues(
    cleaned: Rig, topic_name: str, holes: Holes
) -> None:
    """A late gap marker landed before its record. Source and copy hold other records at one offset, but not in turn."""
    cleaned.destination.create(topic_name, config=COPY if holes is Holes.COPIES else {"cleanup.policy": "delete"})
    [at] = cleaned.source.create(topic_name, config=COMPACT)
    producer = cleaned.source.producer()
    for key in KEYS:
        producer.produce(topic_name, b"first", key)
    producer.flush(20)
    dying = Forgetful(MemoryCluster(), STATE_TOPIC, WORKER)
    with cleaned.copier([at], holes=holes, store=dying) as copier:
        cleaned.copied(copier)
        surplus(cleaned, at, 3)
        for key in KEYS:
            producer.produce(topic_name, b"second", key)
        producer.flush(20)
        until(lambda: cleaned.destination.end(at) == 2 * len(KEYS) + 3, 20)
    for key in KEYS[:5]:
        producer.produce(topic_name, b"third", key)
    producer.flush(20)
    with cleaned.copier([at], holes=holes, name="w2") as copier:
        cleaned.copied(copier)
    originals, copies = (committed(side, [at])[at] for side in (cleaned.source, cleaned.destination))
    assert state(copies) == state(originals)
    offsets = cleaned.offsets(at)
    assert {offsets.locate(SourceOffset(row.offset)) for row in originals} >= {row.offset for row in copies}
