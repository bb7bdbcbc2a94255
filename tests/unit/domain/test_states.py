"""The life of a partition: every line of its table, every wish, every finding."""

from __future__ import annotations

from itertools import product

import pytest

from tanist.domain.errors import NoSuchTransition
from tanist.domain.states import MIRROR_STATES, Finding, MirrorState, Trigger, Wish, transition, trigger_for

S = MirrorState

REACHED = {Wish.MIRRORING: S.MIRRORING, Wish.PAUSED: S.PAUSED, Wish.REMOVED: S.STOPPED}
RESTS = {
    (Wish.REMOVED, S.UNKNOWN): S.UNKNOWN,  # never begun: nothing to stop
    (Wish.PAUSED, S.STOPPED): S.STOPPED,  # stopped is more than paused: only a wish to mirror begins again
    (Wish.PAUSED, S.STOPPING): S.STOPPED,
    (Wish.MIRRORING, S.FAILED): S.FAILED,
    (Wish.PAUSED, S.FAILED): S.FAILED,
}
PERFECT = {S.PREPARING: Finding.ALIGNED, S.PAUSING: Finding.QUIET, S.STOPPING: Finding.SEALED}


def test_every_state_answers_every_trigger_with_a_row_or_a_named_refusal() -> None:
    """Numbers grow, no row is shadowed by an earlier one, and a partition always has a way out."""
    numbers = [row.number for row in MIRROR_STATES]
    assert numbers == sorted(set(numbers))
    used, leaves = set(), set()
    for state, trigger in product(S, Trigger):
        rows = [row for row in MIRROR_STATES if state in row.before and trigger is row.trigger]
        if not rows:
            with pytest.raises(NoSuchTransition, match=f"{state} cannot {trigger}"):
                transition(state, trigger)
            continue
        assert rows == [transition(state, trigger)], "a row is shadowed"
        used.add(rows[0].number)
        if rows[0].after not in {state, S.FAILED}:
            leaves.add(state)
    assert used == set(numbers)
    assert leaves == set(S)


def test_numbers_of_rows_are_for_ever() -> None:
    """Incidents and stored records cite them: a new row gets a new number, an old number keeps its meaning."""
    assert {row.number: (row.trigger, row.after) for row in MIRROR_STATES} == {
        100: (Trigger.ADD, S.PREPARING),
        102: (Trigger.ALIGNED, S.MIRRORING),
        200: (Trigger.PAUSE, S.PAUSING),
        202: (Trigger.QUIET, S.PAUSED),
        204: (Trigger.RESUME, S.MIRRORING),
        300: (Trigger.REMOVE, S.STOPPING),
        302: (Trigger.SEALED, S.STOPPED),
        900: (Trigger.BROKEN, S.FAILED),
    }


@pytest.mark.parametrize("wish", Wish)
@pytest.mark.parametrize("state", S)
def test_a_wish_comes_true_where_nothing_fails(wish: Wish, state: MirrorState) -> None:
    """In a perfect world each wish is reached from anywhere in a few rounds, and then nothing happens any more."""
    for _ in range(len(S)):
        trigger = trigger_for(wish, state, PERFECT.get(state))
        if trigger is None:
            break
        state_before, state = state, transition(state, trigger).after
        assert state is not state_before
    assert trigger_for(wish, state, PERFECT.get(state)) is None, "it never rests"
    assert state is RESTS.get((wish, MirrorState(state)), REACHED[wish]) or state in {
        end for (resting, _), end in RESTS.items() if resting is wish
    }


def test_what_is_derived_is_always_a_row_and_only_removal_leaves_failed() -> None:
    """Stale findings and sudden wishes included: a trigger that the table does not know would stop a worker."""
    for wish, state, finding in product(Wish, S, (None, *Finding)):
        trigger = trigger_for(wish, state, finding)
        if trigger is None:
            continue
        after = transition(state, trigger).after
        if state is S.FAILED:
            assert (wish, trigger, after) == (Wish.REMOVED, Trigger.REMOVE, S.STOPPING)
        if finding is Finding.BROKEN:
            assert after is S.FAILED
