"""How far a worker is behind, in offsets, bytes and seconds."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.appending import Pipeline
from tanist.domain.copying import Append
from tanist.domain.errors import Unreachable
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.recovery import ResumePoint
from tanist.fetcher.assignment import PartitionKey, Report
from tanist.fetcher.numbers import MirrorNumbers, furthest, numbers
from tanist.kafka.protocol.batch import walk
from tests.builders import DR
from tests.unit.fetcher.test_pipeline import copying
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from tanist.fetcher.engines.batches.partition import BatchPartition

NOW = EpochMs(1_000_000)


def key(n: int) -> PartitionKey:
    return PartitionKey(DR, MirrorPartition("orders", n))


def report(position: int | None, end: int | None = 100, **fields: Any) -> Report:
    high = None if end is None else SourceOffset(end)
    copied = None if position is None else SourceOffset(position)
    return Report(position=copied, source_high_watermark=high, source_last_stable=high, **fields)


def of(*reports: Report) -> MirrorNumbers:
    found = {key(n): each for n, each in enumerate(reports)}
    return numbers(found, found, {}, NOW)[DR]


def test_s3_17_a_lag_is_counted_in_offsets_bytes_and_seconds() -> None:
    found = of(
        report(90, records=10, bytes=1_000, uncopied_at=EpochMs(999_000)),
        report(95, records=10, bytes=3_000, uncopied_at=EpochMs(997_500)),
        report(100, records=5, bytes=50),
    )
    assert (found.lag, found.largest, found.unknown, found.ms) == (15, 10, 0, 2_500)
    assert found.size == 10 * 100 + 5 * 300


def test_what_is_not_known_is_counted_apart_and_makes_no_lag_smaller() -> None:
    found = of(report(None), report(90, None), report(90, uncopied_at=EpochMs(999_000)), report(90))
    assert (found.lag, found.unknown) == (20, 3), "of the last one only the age is not known"
    assert isnan(found.size), "nothing was copied yet"
    unseen = numbers([key(1), key(2)], {key(1): report(100)}, {}, NOW)[DR]
    assert unseen.unknown == 1, "no thread has it yet"


def test_a_partition_without_an_average_of_its_own_takes_that_of_its_mirror() -> None:
    found = of(report(90, uncopied_at=NOW), report(100, records=4, bytes=200))
    assert found.size == 10 * 50


def test_what_only_an_open_transaction_has_written_has_no_age() -> None:
    waits = Report(
        position=SourceOffset(90), source_last_stable=SourceOffset(90), source_high_watermark=SourceOffset(100)
    )
    found = of(waits)
    assert (found.lag, found.ms, found.unknown) == (10, 0, 0)


def test_what_cannot_be_copied_is_counted() -> None:
    assert of(report(100, error=Unreachable("away")), report(100)).troubled == 1


def test_only_the_partitions_that_are_furthest_behind_are_named() -> None:
    reports = [(key(n), report(100 - n)) for n in range(50)]
    assert [(each.partition.partition, lag) for each, lag in furthest(reports, most=3)] == [
        (49, 49),
        (48, 48),
        (47, 47),
    ]
    assert len(furthest(reports)) == 49, "one of them does not lag"


# ── the time of the first record that is not copied ───────────────────────────────────────────────────────────────


def reading(*timestamps: int, end: int = 10) -> BatchPartition:
    """A partition that has read a batch of two records with each of these timestamps."""
    found = copying(0, 0)
    found.pipeline = Pipeline.resume(ResumePoint(SourceOffset(0), DestinationOffset(0), 0), OffsetMap())
    found.source.served(NOW, end, end, 0)
    for n, ms in enumerate(timestamps):
        batch = memoryview(encode_batch([b"a", b"b"], base_offset=2 * n, timestamp_ms=ms))
        found.pipeline.take(Append(header, payload) for header, payload in walk(batch))
    return found


def test_it_is_that_of_the_first_batch_that_has_not_landed() -> None:
    found = reading(500, 900)
    assert found._uncopied_at() == 500
    sent = found.pipeline.sent()
    assert found._uncopied_at() == 500, "it is on its way"
    found.pipeline.in_flight.popleft()
    found.landed(sent, NOW)
    assert found._uncopied_at() == 900


def test_it_stays_known_when_what_was_read_is_void() -> None:
    """The destination is down: what was read ahead is dropped, and the first record still waits."""
    found = reading(500)
    assert found._uncopied_at() == 500
    found.halt(Unreachable("away"), 0.0)
    assert found._uncopied_at() == 500


def test_a_producer_that_says_an_old_time_does_not_make_a_copy_late() -> None:
    """What was not there when the copy was complete came later."""
    found = reading(500)
    found.complete_at = EpochMs(800)
    assert found._uncopied_at() == 800
    assert reading(end=0)._uncopied_at() is None, "nothing is missing"
    assert reading()._uncopied_at() is None, "nothing was read: it is not known"


@pytest.mark.parametrize(("copied", "since"), [(10, 700), (9, None)])
def test_a_copy_is_complete_when_it_has_what_readers_of_committed_records_see(copied: int, since: int | None) -> None:
    found = reading()
    found.pipeline.landed_until = SourceOffset(copied)
    found.compared(EpochMs(700))
    assert found.complete_at == since
