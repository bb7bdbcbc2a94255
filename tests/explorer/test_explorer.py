"""Some hundred stories; and that the explorer would see it if a rule were broken."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tests.explorer import judge
from tests.explorer.circle_story import drawn_circle
from tests.explorer.explore import describe, explore, play, shortest
from tests.explorer.place import DR
from tests.explorer.product import STATE_TOPIC, Fences, FenceStatus, Mode
from tests.explorer.stage import AT_LAST, Effect, Order
from tests.explorer.story import Deed, Role, Story, drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.explorer.place import Place

pytestmark = pytest.mark.timeout(1_200)
STORIES: Final = int(os.environ.get("STORIES", "100"))
"""Of failovers: about 8 s of one core; `make test STORIES=5000 ARGS=tests/explorer` plays more of each kind."""
CIRCLES: Final = int(os.environ.get("STORIES", "30"))
"""Stories that go all the way round: about 8 s."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("draw", "stories"), [(drawn, STORIES), (drawn_circle, CIRCLES)], ids=["failover", "circle"])
def test_no_story_breaks_a_rule(draw: Callable[[int], Story], stories: int) -> None:
    """Each run plays the same stories."""
    for played in explore(1, stories, draw):
        if played.violations:
            rule = played.violations[0].rule
            pytest.fail(describe(shortest(played, rule), rule), pytrace=False)


def story(*roles: Role, orders: tuple[Order, ...] = ()) -> Story:
    return Story(seed=0, authorizer=True, writing=True, roles=roles, orders=orders)


EVERYTHING: Final = Deed("failover", (Mode.PLANNED, ".*"))


def test_a_story_is_played_again_exactly() -> None:
    """All of what was drawn, and nothing else, decides what happens."""
    frozen = Order("bob", "fencing.apply", 1, Effect.FREEZE, 9.0)
    same = story(Role("ann", 0.0, (EVERYTHING,)), Role("bob", 0.1, (EVERYTHING, Deed("abort"))), orders=(frozen,))
    first, again = play(same, traced=True), play(same, traced=True)
    assert first.trace == again.trace
    assert first.points == again.points > 100
    assert drawn(7) == drawn(7)


def test_a_story_all_the_way_round_is_played_again_exactly() -> None:
    first, again = (play(drawn_circle(7), traced=True) for _ in range(2))
    assert first.trace == again.trace
    assert first.points == again.points > 1_000


def test_who_is_frozen_for_long_wakes_when_all_others_are_done() -> None:
    asleep = Order("ann", "producer_fencing.fence_producers", 1, Effect.FREEZE, AT_LAST)
    trace = play(
        story(Role("ann", 0.0, (EVERYTHING,)), Role("bob", 30.0, (Deed("alter"),)), orders=(asleep,)), traced=True
    ).trace
    woken = next(n for n, line in enumerate(trace) if "ann" in line and "wakes" in line)
    assert any("bob" in line and "alter" in line for line in trace[:woken])


def test_who_is_killed_does_nothing_more() -> None:
    dead = Order("ann", "fencing.apply", 1, Effect.KILL)
    played = play(story(Role("ann", 0.0, (EVERYTHING, Deed("alter"))), orders=(dead,)), traced=True)
    (last, *_) = [line for line in reversed(played.trace) if " ann " in line]
    assert "KILLED before fencing.apply" in last


def test_every_rule_sees_what_breaks_it() -> None:
    """The world is spoilt by hand behind the product's back, each time in another way."""
    for spoil, rule in (
        (_lift_behind_its_back, "never two writable sides"),
        (_forget_its_fence, "a fence that stands is on record"),
        (_unseal, judge.DONE_UNDONE),
        (_unseal, judge.INVARIANTS),
        (_take_back, "no group backwards"),
    ):
        place = _promoted()
        spoil(place)
        assert rule in {each.rule for each in place.violations}, spoil.__name__


def _promoted() -> Place:
    return _played(story(Role("ann", 0.0, (EVERYTHING,))))


def _played(which: Story) -> Place:
    seen: list[Place] = []
    play(which, keep=seen.append)
    (place,) = seen
    assert not place.violations
    return place


def _lift_behind_its_back(place: Place) -> None:
    """Status tells it; the rule is for one that does not."""
    _record_as_lifted(place)
    place.east.deny.clear()
    place.put_up.clear()
    _at_rest_without_status(place)


def _forget_its_fence(place: Place) -> None:
    """The fence stands still, and what was there before is forgotten as well."""
    _record_as_lifted(place, forgotten=True)
    _at_rest_without_status(place)


def _at_rest_without_status(place: Place) -> None:
    with pytest.MonkeyPatch.context() as silent:
        silent.setattr(judge, "is_told", lambda *_: False)
        judge.at_rest(place)


def _record_as_lifted(place: Place, *, forgotten: bool = False) -> None:
    """`forgotten`: and what was there before the fence."""
    held = place.view().source_fences(DR)
    lifted = tuple(replace(each, status=FenceStatus.LIFTED, before=None if forgotten else each.before) for each in held)
    place.west.write(STATE_TOPIC, Fences(mirror=DR, topics=lifted, at=place.clock.now()))


def _unseal(place: Place) -> None:
    (run,) = place.view().failovers(DR)
    place.west.epochs.clear()
    judge.done(place, run)


def _take_back(place: Place) -> None:
    at = next(iter(place.west.ends))
    for offset in (7, 3):
        place.at_west.commit("billing", at, offset)
    place.clients()


def test_a_long_trace_is_made_short() -> None:
    """What has nothing to do with it is left out."""
    roles = [Role(name, 0.0, (Deed("rest", (1.0,)), Deed("alter"))) for name in ("bob", "eve")]
    long = story(*roles, Role("ann", 0.0, (Deed("nonsense"), Deed("alter"))))
    found = play(long)
    assert found.broke("only errors of ours")
    assert shortest(found, "only errors of ours").story.roles == (Role("ann", 0.0, (Deed("nonsense"),)),)
