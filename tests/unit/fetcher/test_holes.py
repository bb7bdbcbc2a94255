"""How a partition is copied at which a cleaner of the source is, or was, at work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.appending import Move, next_move
from tanist.domain.compaction import Holes
from tanist.domain.copying import Append, Fill
from tanist.domain.errors import CompactionHole, Diverged
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.fetcher.engines.batches.decisions import REST_SECONDS, AnswerTimes, Decisions
from tanist.kafka.protocol.frames import FetchedPartition
from tanist.kafka.wire.clock import SystemClock
from tests.unit.fetcher.test_pipeline import copying, steps
from tests.unit.kafka.protocol.batches import encode_batch, encode_marker

if TYPE_CHECKING:
    from tanist.fetcher.engines.batches.partition import BatchPartition


CLOCK = SystemClock()


def partition(holes: Holes, *, compacted: bool) -> BatchPartition:
    found = copying(0, 1)
    found.assigned = replace(found.assigned, holes=holes, compacted=compacted)
    return found


@pytest.mark.parametrize("holes", list(Holes))
def test_a_compacted_topic_is_copied_so_from_the_beginning(holes: Holes) -> None:
    assert partition(holes, compacted=True).holes is holes


def test_a_topic_that_is_not_compacted_is_copied_as_a_dense_one_until_a_hole_is_found() -> None:
    """Both logs are read again then, and nothing failed."""
    found = partition(Holes.MARKERS, compacted=False)
    assert [found.holes] == [Holes.REFUSE]
    found.halt(CompactionHole("offsets 3 to 4 are missing"), 1.0)
    assert found.halted is not None
    assert found.halted.why is None
    assert [found.holes] == [Holes.MARKERS]


@pytest.mark.parametrize("compacted", [True, False])
def test_where_holes_are_refused_one_fails_the_partition(compacted: bool) -> None:
    found = partition(Holes.REFUSE, compacted=compacted)
    found.halt(why := CompactionHole("offsets 3 to 4 are missing"), 1.0)
    assert found.halted is not None
    assert found.halted.why is why


def test_other_errors_say_nothing_about_holes() -> None:
    found = partition(Holes.MARKERS, compacted=False)
    found.halt(Diverged("x"), 1.0)
    assert found.holes is Holes.REFUSE


def test_a_topic_that_becomes_compacted_is_read_again() -> None:
    """The position in the source counts what it has read; in a dense log what it has read and sent on."""
    found = partition(Holes.MARKERS, compacted=False)
    found.assign(replace(found.assigned, claim_epoch=7))
    assert found.halted is None
    found.assign(replace(found.assigned, holes=Holes.COPIES, compacted=True))
    assert found.halted is not None


def test_the_planned_end_counts_what_is_still_to_be_sent() -> None:
    pipeline = copying(0, 2).pipeline
    assert pipeline.planned_end == 4
    pipeline.take([Fill(SourceOffset(4), SourceOffset(7))])
    assert (pipeline.planned_end, pipeline.end) == (7, 0)


def test_offsets_without_a_record_rest_anew_once_a_record_has_followed() -> None:
    """They got gap markers at once: the time counted from the ones before the record."""
    of, now = partition(Holes.COPIES, compacted=True), CLOCK.monotonic()
    of.resting_since = now - 3 * REST_SECONDS
    decisions, look = Decisions(CLOCK), AnswerTimes(CLOCK.now(), CLOCK.now())
    decisions.take(of, fetched(encode_batch([b"a"], base_offset=2)), look, is_whole=True)
    assert [of.resting_since] == [None]
    of.pipeline.steps.clear()  # they have landed
    of.pipeline.end = DestinationOffset(3)
    decisions.take(of, fetched(encode_marker(3, 1)), look, is_whole=True)
    assert (of.pipeline.position, list(of.pipeline.steps)) == (4, [])
    assert of.resting_since is not None
    assert of.resting_since >= now


def fetched(batch: bytearray) -> FetchedPartition:
    return FetchedPartition("t", 0, 0, 9, 9, 0, (), memoryview(batch))


def test_the_leader_epoch_of_the_last_batch_is_not_sent_with_a_later_offset() -> None:
    """The source's log starts behind it: it may have another epoch there, and would be called truncated."""
    of = partition(Holes.COPIES, compacted=True)
    of.last_epoch = 4
    assert of.position(1)[2:5] == (of.pipeline.position, 1, 4)
    of.enter_at = SourceOffset(of.pipeline.position + 1)
    assert of.position(1)[2:5] == (of.enter_at, 1, -1)


def test_what_was_read_without_a_record_moves_the_position_alone() -> None:
    pipeline = copying(0, 1).pipeline
    assert pipeline.take([], SourceOffset(9))
    assert (pipeline.position, pipeline.planned_end) == (9, 2)
    assert not pipeline.take([], SourceOffset(9))


def test_the_map_is_extended_where_copies_have_worked_off_a_surplus() -> None:
    """The record behind them is at its own offset again, and a group's position there must not be shifted."""
    pipeline = cast("Any", copying(0, 0).pipeline)
    pipeline.offsets = OffsetMap((OffsetRange(SourceOffset(0), DestinationOffset(3)),))
    pipeline.end = DestinationOffset(3)
    first, second = steps(0)[0], steps(9)[0]
    assert isinstance(second, Append)
    pipeline.take([first, second])
    assert next_move(pipeline, 0) is Move.APPEND
    pipeline.landed(pipeline.sent())
    pipeline.in_flight.clear()
    pipeline.end = DestinationOffset(9)
    assert next_move(pipeline, 0) is Move.EXTEND_MAP
    assert pipeline.missing_range == OffsetRange(SourceOffset(9), DestinationOffset(9))


def test_markers_at_the_end_of_both_logs_are_no_lag_to_the_next_worker() -> None:
    """It resumes where the markers begin, reads those of the source, and has nothing to append for them."""
    pipeline = copying(0, 0).pipeline
    pipeline = replace(pipeline, position=SourceOffset(992), end=DestinationOffset(992))
    pipeline.landed_until, pipeline.landed_end = SourceOffset(991), DestinationOffset(992)
    assert pipeline.quiet
    pipeline.rested()
    assert pipeline.landed_until == 992
