"""What a pipeline does next and what an answer means: each rule alone, and found out where it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain import appending, gap_markers
from tanist.domain.appending import (
    DEPTH,
    FORGETS_EARLY_MS,
    CopiedRecord,
    Halt,
    Move,
    Pipeline,
    next_move,
    remembered_since,
    shifted,
)
from tanist.domain.broker_errors import InvalidProducerEpoch, MessageTooLarge, NotLeader
from tanist.domain.copying import Append, Fill, Refuse
from tanist.domain.errors import BrokerError, CompactionHole, MirrorProducerFenced, RecordTooLarge
from tanist.domain.gap_markers import Count, MarkerEpoch
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.recovery import ResumePoint
from tests.unit.domain.source_logs import Stored
from tests.unit.domain.storms import Weather, history

if TYPE_CHECKING:
    from collections.abc import Callable

YOUNG, OLD = 0, 1
"""The model's batches have timestamp 0: as the oldest that is remembered these make them young and old."""


def a_pipeline(*steps: Append[Stored, Stored] | Fill | Refuse, end: int = 0) -> Pipeline[Stored, Stored]:
    """One that resumed at source offset 0, whose first append was acknowledged; destination offset `end` is next."""
    pipeline = Pipeline[Stored, Stored].resume(ResumePoint(SourceOffset(0), DestinationOffset(end), 0), OffsetMap())
    pipeline.acknowledged = True
    pipeline.take(steps)
    return pipeline


def records(start: int, count: int = 1) -> Append[Stored, Stored]:
    batch = Stored(start, start + count, tuple(range(start, start + count)))
    return Append(batch, batch)


def gap(start: int, until: int) -> Fill:
    return Fill(SourceOffset(start), SourceOffset(until))


# ── what is next ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_as_many_batches_are_in_flight_as_the_broker_recognises() -> None:
    pipeline = a_pipeline(*(records(n) for n in range(DEPTH + 1)))
    for _ in range(DEPTH):
        assert next_move(pipeline, YOUNG) is Move.APPEND
        pipeline.sent()
    assert next_move(pipeline, YOUNG) is Move.WAIT
    pipeline.landed(pipeline.in_flight.popleft())
    assert next_move(pipeline, YOUNG) is Move.APPEND


def test_the_first_append_after_a_recovery_is_alone_until_it_is_acknowledged() -> None:
    pipeline = a_pipeline(records(0), records(1))
    pipeline.acknowledged = False
    assert next_move(pipeline, YOUNG) is Move.APPEND
    pipeline.sent()
    assert next_move(pipeline, YOUNG) is Move.WAIT
    pipeline.landed(pipeline.in_flight.popleft())
    assert next_move(pipeline, YOUNG) is Move.APPEND


def test_an_old_batch_goes_alone_and_under_the_lease() -> None:
    pipeline = a_pipeline(records(0), records(1))
    assert next_move(pipeline, OLD) is Move.APPEND_UNDER_LEASE
    pipeline.sent()
    assert next_move(pipeline, OLD) is Move.WAIT


def test_a_young_batch_behind_an_old_one_goes_alone_and_under_the_lease() -> None:
    """After the old one the broker may have forgotten our id, so it compares nothing."""
    young = Stored(1, 2, (1,))
    pipeline = a_pipeline(records(0), Append(young, young))
    pipeline.sent()
    pipeline.landed(pipeline.in_flight.popleft())
    assert next_move(pipeline, YOUNG) is Move.APPEND
    pipeline.last_timestamp = EpochMs(-1)
    assert next_move(pipeline, YOUNG) is Move.APPEND_UNDER_LEASE


def test_what_was_young_when_it_was_sent_grows_old_while_a_source_rests() -> None:
    """The broker forgets an id by the timestamp of its last batch, and asks nobody whether a worker still runs."""
    day, sent_at = 86_400_000, EpochMs(10**12)
    pipeline = a_pipeline(records(0))
    pipeline.last_timestamp = sent_at
    young = Stored(0, 1, (0,))
    assert remembered_since(EpochMs(sent_at + 1000), day) < sent_at
    assert remembered_since(EpochMs(sent_at + day), day) == sent_at + FORGETS_EARLY_MS
    pipeline.steps[0] = Append(young, young)
    assert next_move(pipeline, YOUNG) is Move.APPEND
    assert next_move(pipeline, remembered_since(EpochMs(sent_at + day), day)) is Move.APPEND_UNDER_LEASE


def test_a_gap_waits_until_nothing_is_in_flight_and_the_map_is_looked_at_behind_it() -> None:
    pipeline = a_pipeline(records(0), gap(1, 3), records(3))
    pipeline.sent()
    assert next_move(pipeline, YOUNG) is Move.WAIT
    pipeline.landed(pipeline.in_flight.popleft())
    assert next_move(pipeline, YOUNG) is Move.FILL_GAP
    assert (pipeline.gap_until, pipeline.gap_markers) == (3, 2)
    pipeline.end = DestinationOffset(4)  # one too many
    pipeline.gap_filled()
    assert (pipeline.landed_until, pipeline.landed_end) == (3, 4)
    assert next_move(pipeline, YOUNG) is Move.EXTEND_MAP
    assert pipeline.missing_range == OffsetRange(SourceOffset(3), DestinationOffset(4))
    pipeline.map_extended(OffsetMap((pipeline.missing_range,)))
    assert next_move(pipeline, YOUNG) is Move.APPEND


def test_a_map_that_another_worker_has_extended_further_is_not_extended_for_ever() -> None:
    """For one source start the largest destination wins, so what was read back may not be what was written."""
    pipeline = a_pipeline(records(3), end=4)
    assert next_move(pipeline, YOUNG) is Move.EXTEND_MAP
    pipeline.map_extended(OffsetMap((OffsetRange(SourceOffset(3), DestinationOffset(9)),)))
    assert next_move(pipeline, YOUNG) is Move.APPEND


def test_markers_that_were_lost_are_made_up_for_before_the_next_record() -> None:
    pipeline = a_pipeline(records(3), end=1)
    assert next_move(pipeline, YOUNG) is Move.FILL_GAP
    assert (pipeline.gap_until, pipeline.gap_markers) == (3, 2)
    pipeline.end = DestinationOffset(3)
    pipeline.gap_filled()
    assert next_move(pipeline, YOUNG) is Move.APPEND


def test_a_refusal_comes_after_all_that_was_read_before_it() -> None:
    pipeline = a_pipeline(records(0), Refuse(CompactionHole("gone")))
    pipeline.sent()
    assert next_move(pipeline, YOUNG) is Move.WAIT
    pipeline.landed(pipeline.in_flight.popleft())
    assert next_move(pipeline, YOUNG) is Move.FAIL


def test_a_pipeline_that_was_halted_forgets_what_was_read_and_keeps_its_first_reason() -> None:
    pipeline = a_pipeline(records(0), records(1))
    pipeline.sent()
    pipeline.halt(Halt(NotLeader("moved"), 1.0, DestinationOffset(0)))
    pipeline.halt(Halt(None, 2.0))
    assert not pipeline.quiet, "its answer is still to come"
    assert (pipeline.halted, len(pipeline.steps)) == (Halt(pipeline.halted.why, 1.0, DestinationOffset(0)), 0)  # type: ignore[union-attr]


# ── what an answer means ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("base", "missing"), [(7, OffsetRange(SourceOffset(5), DestinationOffset(7))), (3, None)])
def test_a_shift_goes_on_record_and_a_duplicate_does_not(base: int, missing: OffsetRange | None) -> None:
    """A duplicate is answered with the offset of the original, which is where the map says already."""
    pipeline = a_pipeline(records(5), end=5)
    assert shifted(pipeline, pipeline.sent(), DestinationOffset(base)) == missing


def test_a_shift_that_is_on_record_is_not_written_again() -> None:
    pipeline = a_pipeline(records(5), end=5)
    sent = pipeline.sent()
    pipeline.offsets = OffsetMap((OffsetRange(SourceOffset(5), DestinationOffset(7)),))
    assert shifted(pipeline, sent, DestinationOffset(7)) is None


@pytest.mark.parametrize(
    ("answered", "means"),
    [(MessageTooLarge, RecordTooLarge), (InvalidProducerEpoch, MirrorProducerFenced), (NotLeader, NotLeader)],
)
def test_only_a_refusal_that_never_changes_breaks_a_partition(
    answered: type[BrokerError], means: type[Exception]
) -> None:
    assert type(appending.translate_refusal(answered("by the broker"))) is means


# ── gap markers ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_epoch_is_spent_until_its_markers_are_counted() -> None:
    epoch = MarkerEpoch(3)
    spent = [epoch.spent]
    for event in (epoch.sent, epoch.counted, epoch.sent):
        event()
        spent.append(epoch.spent)
    assert spent == [False, True, False, True]
    epoch.renewed(5)
    epoch.claimed(4)
    assert (epoch.value, epoch.spent) == (5, False)


def test_markers_are_counted_by_the_committed_end() -> None:
    assert [gap_markers.count(mark, 5) for mark in (4, 5, 6)] == [Count.NOT_YET, Count.LANDED, Count.SURPLUS]
    assert gap_markers.ends_at(5, 5, DestinationOffset(5))
    assert not gap_markers.ends_at(4, 5, DestinationOffset(5))
    assert not gap_markers.ends_at(6, 6, DestinationOffset(5))


def test_epochs_rise_above_all_that_was_seen_and_end() -> None:
    assert gap_markers.next_epoch(3) == 4
    assert gap_markers.next_epoch(3, 9) == 10
    assert gap_markers.next_epoch(gap_markers.LAST_EPOCH) is None


# ── each rule has teeth: without it a life ends with a record out of place, or a partition that cannot go on ──────


def without(move: Move, instead: Move) -> Callable[..., Move]:
    return lambda *of: instead if (found := next_move(*of)) is move else found


@pytest.mark.parametrize(
    ("rule", "weather"),
    [
        ({"next_move": without(Move.EXTEND_MAP, Move.APPEND)}, Weather()),
        ({"next_move": without(Move.APPEND_UNDER_LEASE, Move.APPEND)}, Weather(forgetful=True)),
        ({"next_move": lambda pipeline, _, depth: next_move(pipeline, YOUNG, depth)}, Weather(forgetful=True)),
    ],
    ids=["the map is ahead of the record", "old batches under the lease", "old batches one by one"],
)
def test_a_pipeline_without_this_rule_is_found_out(
    rule: dict[str, Callable[..., Move]], weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, broken in rule.items():
        monkeypatch.setattr(appending, name, broken)
    assert any(history(seed, weather) != "exact" for seed in range(300))


def test_a_first_append_that_is_not_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not know the id yet: it refuses the first batch and takes the second one."""
    monkeypatch.setattr(Pipeline, "acknowledged", property(lambda _: True, lambda *_: None))
    assert any(history(seed, Weather()) != "exact" for seed in range(300))


# ── a source with another history ─────────────────────────────────────────────────────────────────────────────────


def test_a_source_that_lost_what_may_have_been_copied_is_truncated_by_exactly_that() -> None:
    pipeline = a_pipeline(records(0, 10), records(10, 10), records(20, 10))
    pipeline.sent()
    lost = appending.truncated(pipeline.sent_until, 5, SourceOffset(7))
    assert lost is not None
    assert "lost its offsets 7 to 9 " in lost.reason


def test_a_source_that_lost_only_what_was_read_and_not_sent_is_read_again() -> None:
    pipeline = a_pipeline(records(0, 10), records(10, 10))
    pipeline.sent()
    assert appending.truncated(pipeline.sent_until, 5, SourceOffset(10)) is None


def test_an_error_in_the_log_is_not_taken_for_a_record_that_was_not_sent() -> None:
    pipeline = a_pipeline(records(0, 10))
    pipeline.sent()
    pipeline.take([Refuse(CompactionHole("a hole"))])
    assert pipeline.sent_until == 10


@pytest.mark.parametrize(
    ("position", "epoch_end", "lost"),
    [
        (100, 100, None),
        (100, 120, None),
        (100, 60, "60 to 99"),
        (120, 60, "60 to 119"),
        (100, -1, None),  # the log has forgotten the epoch, or is another one
        (90, 60, None),  # the copy begins anew, or has lost the record as well
    ],
)
def test_an_epoch_that_ends_before_a_copied_record_of_it_has_lost_records(
    position: int, epoch_end: int, lost: str | None
) -> None:
    found = CopiedRecord(SourceOffset(100), 4).lost(SourceOffset(position), epoch_end)
    assert found is None if lost is None else found is not None and f"lost its offsets {lost} " in found.reason
