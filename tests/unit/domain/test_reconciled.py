"""Translation by a published reconciliation: what became of the copy since, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciled.published import Reconciled
from tanist.domain.reconciled.steps import Step, Steps
from tanist.domain.translation import Conservative, Exact, Inputs, Unknown
from tanist.domain.translators.by_reconciliation import RECONCILED

STEPS = Steps.of(
    [
        Step(0, None, 100, slopes=True, exact=True, placement=Standing.EXACT, again=0),
        Step(50, None, 150, slopes=False, exact=False, placement=Standing.REORDERED, again=7),
        Step(60, None, 160, slopes=True, exact=True, placement=Standing.EXACT, again=0),
    ]
)
"""Of offsets 0 to 80, whose copies lie a hundred higher; those from 50 to 59 are out of order."""
TOLD = Reconciled(
    run="1f0c",
    age_ms=35 * 60_000,
    until=SourceOffset(80),
    copy=Span(DestinationOffset(100), DestinationOffset(180)),
    steps=STEPS,
)


def answer(position: int, start: int = 100, end: int = 180, told: Reconciled | None = TOLD, why: str = "") -> object:
    copy = Span(DestinationOffset(start), DestinationOffset(end))
    return RECONCILED.translate(SourceOffset(position), Inputs(copy=copy, reconciled=told, unreconciled=why))


@pytest.mark.parametrize(("position", "offset"), [(0, 100), (49, 149), (60, 160), (79, 179)])
def test_a_position_in_a_copy_that_has_not_grown_is_as_exact_as_it_was(position: int, offset: int) -> None:
    assert answer(position) == Exact(DestinationOffset(offset))


def test_a_truncated_copy_that_has_grown_again_is_noticed_by_the_records_at_the_position_and_at_the_end() -> None:
    """An unclean leader election: other records are where the copies were. The two logs' ends do not show it."""
    for position in (10, 49, 60, 79):
        found = answer(position, end=190)
        assert isinstance(found, Conservative)
        assert found.evidence == (position, position + 100)
    for position in (55, 80, 81, 123):
        found = answer(position, end=190)
        assert isinstance(found, Conservative)
        assert found.evidence == (79, 179), "the last ones that were the same"


def test_at_the_end_of_what_was_read_the_last_records_are_compared() -> None:
    """What comes there next may be a repeated record at one side, and a new one at the other."""
    evidence = (SourceOffset(79), DestinationOffset(179))
    assert answer(80) == Exact(DestinationOffset(180), evidence=evidence)


def test_without_an_exact_step_and_behind_a_deleted_one_there_is_nothing_to_compare() -> None:
    flat = Steps.of([Step(0, None, 180, slopes=False, exact=False, placement=Standing.BEYOND_TAIL, again=0)])
    for found in (answer(123, told=replace(TOLD, steps=flat)), answer(123, start=180)):
        assert isinstance(found, Conservative)
        assert found.evidence is None


def test_a_copy_that_lagged_when_it_was_read_is_compared_at_its_own_last_record() -> None:
    """Positions from 70 on go on at its end: only what lies before it was the same."""
    lagging = replace(TOLD, copy=Span(DestinationOffset(100), DestinationOffset(170)))
    found = answer(75, told=lagging)
    assert isinstance(found, Conservative)
    assert found.evidence == (69, 169)


def test_what_is_no_exact_step_says_why_how_much_comes_again_how_old_it_is_and_how_far_it_reaches() -> None:
    found = answer(57)
    assert isinstance(found, Conservative)
    assert found.offset == 150
    assert "at most 7 record(s) come again" in found.why
    assert found.why.endswith("(reconciled 35 min ago, up to source offset 80)")


def test_nothing_is_exact_once_the_copy_has_grown_and_no_position_moves() -> None:
    """A copier that was started again may have appended what was read already."""
    for position in range(81):
        before, after = answer(position), answer(position, end=190)
        assert isinstance(before, Exact | Conservative)
        assert isinstance(after, Conservative)
        assert after.offset == before.offset
    grown = answer(10, end=190)
    assert isinstance(grown, Conservative)
    assert "10 offset(s) were appended" in grown.why
    assert "since it was reconciled 35 min ago, up to source offset 80, and" in grown.why


@pytest.mark.parametrize("end", [180, 500])
def test_ahead_of_the_reconciliation_a_reader_goes_on_where_the_copy_ended_then(end: int) -> None:
    """Not at the end that it has now: what was copied since may be unread."""
    found = answer(123, end=end)
    assert isinstance(found, Conservative)
    assert found.offset == 180
    assert "43 offset(s) ahead of the reconciliation of 35 min ago, which reaches up to 80" in found.why


def test_a_log_start_above_the_answer_is_the_answer() -> None:
    found = answer(10, start=130)
    assert found == Conservative(DestinationOffset(130), "the mirror partition begins at 130: older records are gone")
    assert answer(40, start=130) == Exact(DestinationOffset(140))


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (100, 179, "was truncated, or made again"),
        (0, 0, "was truncated, or made again"),
        (181, 200, "behind all that was reconciled"),
    ],
)
def test_a_copy_that_is_not_the_one_that_was_read_is_not_translated(start: int, end: int, why: str) -> None:
    for position in (0, 57, 80, 200):
        found = answer(position, start, end)
        assert isinstance(found, Unknown)
        assert why in found.why


def test_without_a_reconciliation_the_reason_is_that_of_the_reader() -> None:
    assert answer(1, told=None) == Unknown("the partition was never reconciled: `tanist reconcile --publish`")
    assert answer(1, told=None, why="made again since") == Unknown("made again since")


def test_the_step_and_the_reach_are_explained() -> None:
    copy = Span(DestinationOffset(100), DestinationOffset(180))
    said = RECONCILED.explain(SourceOffset(70), Inputs(copy=copy, reconciled=TOLD))
    assert "run 1f0c, 35 min ago, up to source offset 80 and destination offset 180" in said
    assert "step 3 of 3: source 60 is at destination 160 (+100)" in said
