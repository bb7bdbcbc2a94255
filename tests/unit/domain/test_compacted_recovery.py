"""Where copying resumes when cleaners have been at work on the copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tanist.domain.compacted_recovery import recover_compacted_position
from tanist.domain.errors import CompactionHole, Diverged, ForeignWrite
from tanist.domain.log_ends import CopyEnds
from tanist.domain.names import SEQUENCE_MODULUS, DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.recovery import NotCommittedYet, SourceStart, recover_position
from tests.builders import IDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.copying import Step


@dataclass(frozen=True)
class Kept:
    """A batch of the copy; a cleaner changes `record_count` only. Its payload is itself."""

    base_offset: int
    next_offset: int
    base_sequence: int = 0
    producer_id: int = 1
    is_control: bool = False
    record_count: int = 1
    max_timestamp: int = 5
    is_transactional: bool = False

    @property
    def is_dense(self) -> bool:
        return self.record_count == self.next_offset - self.base_offset


def test_a_copy_that_was_compacted_is_not_recovered_by_counting_records() -> None:
    """The source's topic is not compacted any more, its mirror topic was: the next sequence would be too low."""
    with pytest.raises(CompactionHole, match="destination offset 3 lacks records"):
        recover_position(Logs([Kept(3, 6, 3, record_count=2)], end=6), IDS)


def marker(offset: int) -> Kept:
    return Kept(offset, offset + 1, -1, 2, is_control=True)


@dataclass
class Logs:
    """`CompactedLogReader` over batches in memory."""

    batches: list[Kept]
    end: int
    start: int = 0
    runs: tuple[OffsetRange, ...] = ()
    source_log_start: int = 0
    expected_sequence: int | None = None
    committed: int | None = None
    contradicts: SourceOffset | None = None
    progress: int | None = None
    surplus: int | None = None
    asked: list[int] = field(default_factory=list)
    compared: list[Kept] = field(default_factory=list)

    def copy_ends(self) -> CopyEnds:
        committed = self.end if self.committed is None else self.committed
        return CopyEnds(DestinationOffset(self.start), DestinationOffset(committed), DestinationOffset(self.end))

    def destination(self, start: DestinationOffset, until: DestinationOffset) -> Sequence[tuple[Kept, Kept]]:
        return [(b, b) for b in self.batches if b.next_offset > start and b.base_offset < until]

    def offset_map(self) -> OffsetMap:
        return OffsetMap.of(self.runs)

    def source(self, position: SourceOffset) -> Sequence[Step[Kept, Kept]] | None:
        raise AssertionError(position)  # both logs change: batches are never compared

    def source_start(self) -> SourceStart:
        return SourceStart(SourceOffset(self.source_log_start), SourceOffset(self.source_log_start))

    def copied_until(self) -> SourceOffset | None:
        return None if self.progress is None else SourceOffset(self.progress)

    def next_sequence(self) -> int | None:
        return self.expected_sequence

    def same(self, copied: Kept, originals: Sequence[Kept], skipped: int) -> bool:
        raise AssertionError((copied, originals, skipped))

    def contradiction(self, copied: Sequence[Kept], offsets: OffsetMap) -> SourceOffset | None:
        self.compared = list(copied)
        return None if self.surplus is not None and offsets.runs else self.contradicts

    def surplus_before(self, copied: Sequence[Kept], _offsets: OffsetMap, most: int) -> int | None:
        assert copied[-1] is self.batches[-1]
        self.asked.append(most)
        return self.surplus


@pytest.mark.parametrize("left", [0, 1, 5])
def test_the_next_sequence_counts_offsets_not_the_records_that_are_left(left: int) -> None:
    found = recover_compacted_position(Logs([Kept(10, 15, 10, record_count=left)], 15), IDS)
    assert (found.position, found.end, found.sequence, found.runs) == (15, 15, 15, ())


def test_sequences_begin_again_at_0() -> None:
    last = Kept(0, 8, SEQUENCE_MODULUS - 3)
    assert recover_compacted_position(Logs([last], 8), IDS).sequence == 5


def test_gap_markers_at_the_end_may_be_surplus_so_the_source_is_read_from_where_they_begin() -> None:
    found = recover_compacted_position(Logs([Kept(0, 5), marker(5), marker(6)], 7), IDS)
    assert (found.position, found.end, found.sequence) == (5, 7, 5)


@pytest.mark.parametrize(("progress", "position"), [(None, 5), (0, 5), (3, 5), (7, 7), (9, 9), (10, 9)])
def test_what_a_cleaner_has_taken_behind_the_last_batch_was_copied_as_far_as_is_known(
    progress: int | None, position: int
) -> None:
    """Batches of a producer id that the broker has forgotten, or gap markers, which may have been surplus."""
    found = recover_compacted_position(Logs([Kept(0, 5), marker(9)], 10, progress=progress), IDS)
    assert (found.position, found.end, found.sequence) == (position, 10, 5)


@pytest.mark.parametrize(("progress", "position"), [(6, 6), (8, 8), (12, 9)])
def test_how_far_is_known_is_told_of_the_source_so_the_map_translates_it(progress: int, position: int) -> None:
    run = OffsetRange(SourceOffset(3), DestinationOffset(5))
    found = recover_compacted_position(
        Logs([Kept(0, 3), Kept(5, 8, 3), marker(11)], 12, runs=(run,), progress=progress), IDS
    )
    assert (found.position, found.end, found.sequence) == (position, 12, 6)


@pytest.mark.parametrize(("progress", "position"), [(40, 40), (30, 30), (50, 40)])
def test_a_log_that_was_emptied_continues_where_copying_had_come(progress: int, position: int) -> None:
    found = recover_compacted_position(Logs([], 40, expected_sequence=40, progress=progress), IDS)
    assert (found.position, found.end, found.sequence) == (position, 40, 40)


def test_a_log_that_was_emptied_is_copied_again_where_nothing_is_known() -> None:
    """What the source still has of it are tombstones, or it never was copied."""
    assert recover_compacted_position(Logs([], 40, expected_sequence=40), IDS).position == 0
    assert recover_compacted_position(Logs([], 0), IDS).position == 0


def test_the_position_is_told_through_the_map() -> None:
    run = OffsetRange(SourceOffset(3), DestinationOffset(5))
    found = recover_compacted_position(Logs([Kept(0, 3), Kept(5, 9, 3)], 9, runs=(run,)), IDS)
    assert (found.position, found.end, found.sequence) == (7, 9, 7)


def test_a_log_start_of_the_source_beyond_the_copy_is_filled_up_to() -> None:
    fresh = recover_compacted_position(Logs([], 0, source_log_start=30), IDS)
    assert fresh.start_fill is not None
    assert fresh.runs == ()
    overrun = recover_compacted_position(Logs([Kept(0, 5)], 5, source_log_start=30), IDS)
    assert overrun.start_fill is not None
    assert overrun.position == 30


def test_logs_that_hold_other_records_at_one_offset_have_diverged() -> None:
    logs = Logs([Kept(0, 5), Kept(5, 8, 5)], 8, contradicts=SourceOffset(3))
    with pytest.raises(Diverged, match="offset 3"):
        recover_compacted_position(logs, IDS)
    assert logs.compared == logs.batches


def test_foreign_writes_and_uncommitted_ends_are_found_as_in_other_logs() -> None:
    with pytest.raises(ForeignWrite):
        recover_compacted_position(Logs([Kept(0, 5), Kept(5, 6, producer_id=99)], 6), IDS)
    with pytest.raises(NotCommittedYet):
        recover_compacted_position(Logs([Kept(0, 5)], 5, committed=4), IDS)


def test_a_shift_that_a_worker_did_not_write_before_it_died_is_found_by_the_records() -> None:
    logs = Logs(
        [Kept(0, 5), marker(5), marker(6), Kept(7, 9, 5), Kept(9, 12, 7)], 12, contradicts=SourceOffset(7), surplus=2
    )
    found = recover_compacted_position(logs, IDS)
    assert found.runs == (OffsetRange(SourceOffset(5), DestinationOffset(7)),)
    assert (found.position, found.end, found.sequence) == (10, 12, 10)
    assert logs.asked == [2]


def test_a_shift_that_the_map_already_has_is_not_looked_for_again() -> None:
    run = OffsetRange(SourceOffset(5), DestinationOffset(7))
    logs = Logs([Kept(0, 5), marker(5), marker(6), Kept(7, 9, 5)], 9, runs=(run,), contradicts=SourceOffset(5))
    with pytest.raises(Diverged):
        recover_compacted_position(logs, IDS)
    assert logs.asked == []
