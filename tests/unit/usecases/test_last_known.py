"""What is known of a source that does not answer: each partition with the time of its own last answer."""

from __future__ import annotations

from tanist.domain.lag import KnownEnd, last_known
from tanist.domain.names import EpochMs, SourceOffset, SourcePartition
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tests.builders import DR, a_view

BUSY, IDLE = SourcePartition("orders", 0), SourcePartition("orders", 1)


def end(at: SourcePartition, high: int, seen: int | None = None, silent: int | None = None) -> SourceEnd:
    times = [None if ms is None else EpochMs(ms) for ms in (seen, silent)]
    return SourceEnd(at, SourceOffset(high), SourceOffset(high), 2.0, at=times[0], silent_since=times[1])


def known(*records: SourceEnds) -> dict[SourcePartition, KnownEnd]:
    return last_known(a_view(*records), DR)


def record(chunk: int, at: int, *ends: SourceEnd) -> SourceEnds:
    return SourceEnds(mirror=DR, chunk=chunk, ends=ends, at=EpochMs(at))


def test_each_partition_of_a_record_has_the_time_of_its_own_last_answer() -> None:
    found = known(record(0, 100, end(BUSY, 9, seen=700), end(IDLE, 3, seen=100, silent=130)))
    assert found[BUSY] == KnownEnd(SourceOffset(9), EpochMs(700), 2.0)
    assert found[IDLE] == KnownEnd(SourceOffset(3), EpochMs(100), 2.0, silent_since=EpochMs(130))


def test_a_record_of_an_earlier_version_counts_with_its_oldest_time() -> None:
    """It does not say which of its partitions answered later, so none did."""
    assert {at: end.at for at, end in known(record(0, 100, end(BUSY, 9), end(IDLE, 3))).items()} == {
        BUSY: 100,
        IDLE: 100,
    }


def test_of_two_records_the_later_answer_about_the_partition_counts() -> None:
    """Even in a record that another partition, which has not answered for long, makes an old one."""
    mixed = record(0, 100, end(BUSY, 9, seen=700), end(IDLE, 3, seen=100))
    for plain in (record(1, 400, end(BUSY, 7)), record(1, 400, end(BUSY, 7, seen=400))):
        assert known(mixed, plain)[BUSY].high_watermark == known(plain, mixed)[BUSY].high_watermark == 9
    assert known(mixed, record(1, 900, end(BUSY, 11)))[BUSY] == KnownEnd(SourceOffset(11), EpochMs(900), 2.0)
