"""Plays a story that goes all the way round: a failover, the return of the old source, the way back, a failover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.explorer import circle_judge, row_judge
from tests.explorer.circle import Circle
from tests.explorer.place import DR, PARTITIONS, TOPICS
from tests.explorer.product import Mode, TanistError, findings_of
from tests.explorer.returner import person
from tests.explorer.rows import watched
from tests.explorer.worker import Worker

if TYPE_CHECKING:
    from tests.explorer.returner import Returner
    from tests.explorer.stage import Stage
    from tests.explorer.story import Story

LONGEST_SECONDS: Final = 3_000.0
REST_SECONDS: Final = 30.0
STEPS: Final = 8
TO_THE_END: Final = "the way back can be gone to its end, whoever comes"


def played(stage: Stage, story: Story) -> Circle:
    """The circle as it is left, once everybody has come to rest, and somebody has gone the rest of the way."""
    circle = Circle(stage, authorizer=story.authorizer, writing=story.writing)
    circle.check = lambda when: circle_judge.check(circle, when)
    circle.row_done = lambda table, what: row_judge.done(circle, table, what)
    with watched(circle):
        _workers(circle, "worker")
        stage.enter("time", lambda: stage.sleep(6.0))
        stage.play(60.0)
        for role in story.roles:
            stage.enter(role.name, person(circle, role.name).all_of(role.deeds), role.after)
        stage.play(LONGEST_SECONDS)
        _come_to_rest(circle)
    return circle


def _workers(circle: Circle, name: str) -> None:
    """One at either destination."""
    for home in circle.both:
        worker = Worker(circle, f"{name} of {home.name}", home, circle.other(home))
        worker.round()
        worker.enter()


def _come_to_rest(circle: Circle) -> None:
    """Whoever is left is gone. New workers have time; then somebody goes the rest of the way."""
    stage = circle.stage
    stage.dismiss()
    circle.everybody_returns()
    stage.say("everybody is gone; new workers run")
    _workers(circle, "rested")
    stage.enter("time", lambda: stage.sleep(REST_SECONDS))
    stage.play(REST_SECONDS * 2)
    last = person(circle, "last")
    stage.enter("last", lambda: _rest_of_the_way(last))
    stage.play(LONGEST_SECONDS)
    circle_judge.at_rest(circle)
    stage.dismiss()


def _rest_of_the_way(last: Returner) -> None:
    """Until the mirror copies, and has failed over once more as somebody planned it."""
    refused = ""
    for _ in range(STEPS):
        try:
            if _step(last):
                return
        except TanistError as why:
            refused = f"{why.name}: {why.reason}"
            last.circle.stage.say(f"not yet: {refused}")
        last.circle.clock.wait(REST_SECONDS)
    last.circle.violated(TO_THE_END, refused or "it is not at its end")


def _step(last: Returner) -> bool:
    """What is to be done next, as status says; whether that was all."""
    circle = last.circle
    view, say = circle.view(), circle.stage.say
    inside = [topic for topic in TOPICS if not circle.is_behind(topic)]
    promoted = [topic for topic in inside if view.promoted(DR, topic)]
    if view.unfinished(DR) is not None:
        say(f"goes on: {last.go_on()}")
    elif circle.moves():
        say(f"completes: {last.reverse()}")
    elif promoted == inside:
        if circle.other(circle.home()).named:
            last.abort_transactions()
        say(f"goes back: {last.way_back('safe')}")
    elif any(not each.accepted_by for each in findings_of(view, DR)):
        say(f"accepts: {last.accept()}")
    elif promoted:
        say(f"the rest: {last.failover(Mode.PLANNED, '.*')}")
    elif circle.truncated or any(circle.is_foreign(at, circle.home()) for at in PARTITIONS):
        return True
    else:
        say(f"fails over: {last.planned()}")
        return True
    return False
