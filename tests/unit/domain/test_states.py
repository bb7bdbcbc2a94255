"""The states of a partition: every line of their table, every wish, every finding."""

from __future__ import annotations

from itertools import product

import pytest

from tanist.domain.states import MIRROR_STATES, DesiredState, Finding, MirrorState, Trigger, next_row

S = MirrorState

REACHED = {DesiredState.MIRRORING: S.MIRRORING, DesiredState.PAUSED: S.PAUSED, DesiredState.REMOVED: S.STOPPED}
RESTS = {
    (DesiredState.REMOVED, S.UNKNOWN): S.UNKNOWN,  # never begun: nothing to stop
    (DesiredState.PAUSED, S.STOPPED): S.STOPPED,  # stopped is more than paused: only a wish to mirror begins again
    (DesiredState.PAUSED, S.STOPPING): S.STOPPED,
    (DesiredState.MIRRORING, S.FAILED): S.FAILED,
    (DesiredState.PAUSED, S.FAILED): S.FAILED,
}
PERFECT = {S.PREPARING: Finding.ALIGNED, S.PAUSING: Finding.QUIET, S.STOPPING: Finding.FENCED}


def test_no_row_is_shadowed_and_every_state_has_a_way_out() -> None:
    """Numbers grow, a state and a cause have one row, and a partition is locked in nowhere."""
    numbers = [row.number for row in MIRROR_STATES]
    assert numbers == sorted(set(numbers))
    pairs = [(state, row.cause) for row in MIRROR_STATES for state in row.before]
    assert len(pairs) == len(set(pairs)), "a row is shadowed"
    assert {state for row in MIRROR_STATES for state in row.before if row.after not in {state, S.FAILED}} == set(S)


def test_numbers_of_rows_are_for_ever() -> None:
    """Incidents and stored records cite them: a new row gets a new number, an old number keeps its meaning."""
    assert {row.number: (row.cause, row.trigger, row.after) for row in MIRROR_STATES} == {
        100: (DesiredState.MIRRORING, Trigger.ADD, S.PREPARING),
        102: (Finding.ALIGNED, Trigger.ALIGNED, S.MIRRORING),
        104: (DesiredState.PAUSED, Trigger.ADD, S.PREPARING),
        200: (DesiredState.PAUSED, Trigger.PAUSE, S.PAUSING),
        202: (Finding.QUIET, Trigger.QUIET, S.PAUSED),
        204: (DesiredState.MIRRORING, Trigger.RESUME, S.MIRRORING),
        300: (DesiredState.REMOVED, Trigger.REMOVE, S.STOPPING),
        302: (Finding.FENCED, Trigger.FENCED, S.STOPPED),
        304: (Finding.FENCED, Trigger.FENCED, S.STOPPED),
        306: (Finding.DELETED, Trigger.DELETED, S.STOPPED),
        308: (Finding.RESTORED, Trigger.RESTORED, S.STOPPED),
        900: (Finding.BROKEN, Trigger.BROKEN, S.FAILED),
        902: (Finding.ACCEPTED, Trigger.ACCEPTED, S.PREPARING),
        904: (Finding.RESUMED, Trigger.RESUME, S.PREPARING),
    }


@pytest.mark.parametrize("wish", DesiredState)
@pytest.mark.parametrize("state", S)
def test_a_wish_comes_true_where_nothing_fails(wish: DesiredState, state: MirrorState) -> None:
    """In a perfect world each wish is reached from anywhere in a few rounds, and then nothing happens any more."""
    for _ in range(len(S)):
        row = next_row(wish, state, PERFECT.get(state))
        if row is None:
            break
        state_before, state = state, row.after
        assert state is not state_before
    assert next_row(wish, state, PERFECT.get(state)) is None, "it never rests"
    assert state is RESTS.get((wish, MirrorState(state)), REACHED[wish]) or state in {
        end for (resting, _), end in RESTS.items() if resting is wish
    }


def test_every_row_is_taken_as_the_table_says_and_only_people_lead_out_of_failed() -> None:
    """By removal, by a setting that accepts the failure, or by a request to resume.

    Bad news comes first, then people's wishes, then progress; stale findings and sudden wishes included.
    """
    taken = set()
    for wish, state, finding in product(DesiredState, S, (None, *Finding)):
        row = next_row(wish, state, finding)
        by_wish = next_row(wish, state, None)
        if row is None:
            assert by_wish is None or finding is Finding.BROKEN
            continue
        taken.add(row.number)
        assert state in row.before
        if finding is Finding.BROKEN:
            assert row.after is S.FAILED
        else:
            assert row.cause is (wish if by_wish else finding)
        if state is S.FAILED and row.cause not in {Finding.ACCEPTED, Finding.RESUMED}:
            assert (wish, row.after) == (DesiredState.REMOVED, S.STOPPING)
    assert taken == {row.number for row in MIRROR_STATES}


@pytest.mark.parametrize("state", S)
def test_a_promotion_stops_a_partition_in_any_state(state: MirrorState) -> None:
    """Workers may be dead, so it takes their rows for them; a partition that nobody ever compared has its own."""
    while row := next_row(DesiredState.REMOVED, state, Finding.FENCED):
        state = row.after
    assert state is S.STOPPED
