"""Plays stories, and makes the ones that break something as short as they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.explorer import around, judge
from tests.explorer.mapped import MappedPlace, MappedWorker
from tests.explorer.people import Operator
from tests.explorer.place import DR, Place, Violation
from tests.explorer.product import Mode, TanistError, repeatable
from tests.explorer.rows import watched
from tests.explorer.stage import Stage
from tests.explorer.story import Story, drawn
from tests.explorer.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.explorer.circle import Circle

LONGEST_SECONDS: Final = 1_500.0
REST_SECONDS: Final = 40.0
UNEXPECTED: Final = "only errors of ours"


@dataclass(frozen=True, slots=True)
class Played:
    """`trace`: what happened, where it was asked for. `points`: how many calls were made."""

    story: Story
    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    points: int

    def broke(self, rule: str) -> bool:
        return any(each.rule == rule for each in self.violations)


def _forget(_place: Any) -> None:
    """For those who want the verdict only."""


def play(story: Story, *, traced: bool = False, keep: Callable[[Any], None] = _forget) -> Played:
    """One story, from the first deed until everybody has come to rest; `keep` gets the place as it is left."""
    trace: list[str] = []
    stage = Stage(orders=story.orders)
    began = stage.now
    if traced:
        stage.tell = lambda who, what: trace.append(f"{stage.now - began:8.2f} s  {who:<8} {what}")
    place: Circle | Place
    with repeatable():
        if story.circle:
            place = around.played(stage, story)
        elif story.mapped:
            place = MappedPlace(stage, authorizer=story.authorizer, writing=story.writing)
            with watched(place):
                _act(place, story, MappedWorker)
                _come_to_rest(place, story, MappedWorker)
            place.check("at rest")
        else:
            place = Place(stage, authorizer=story.authorizer, writing=story.writing)
            _act(place, story, Worker)
            _come_to_rest(place, story, Worker)
    for each in stage.actors:
        if each.crash is not None:
            place.violated(UNEXPECTED, f"{each.name}: {type(each.crash).__name__}: {each.crash}")
    keep(place)
    points = sum(each.seen["*"] for each in stage.actors)
    return Played(story, tuple(place.violations), tuple(trace), points)


def _act(place: Place, story: Story, copies: type[Worker]) -> None:
    worker = copies(place)
    for _ in range(3):
        worker.round()
    worker.enter()
    for role in story.roles:
        operator = Operator(place, role.name, lambda record: judge.done(place, record))
        place.stage.enter(role.name, operator.all_of(role.deeds), role.after)
    place.stage.play(LONGEST_SECONDS)


def _come_to_rest(place: Place, story: Story, copies: type[Worker]) -> None:
    """Whoever is left is gone, and a healthy worker has time. Then status is asked, and taken at its word."""
    stage = place.stage
    stage.dismiss()
    stage.say("everybody is gone; a new worker runs")
    worker = copies(place, "rested")
    worker.enter()
    stage.enter("time", lambda: stage.sleep(REST_SECONDS))
    stage.play(REST_SECONDS * 2)
    seen = judge.at_rest(place)
    last = Operator(place, "last", lambda record: judge.done(place, record))
    if place.view().unfinished(DR) is not None:
        stage.enter("last", lambda: _end(last))
    elif judge.stray_fences(place):
        stage.enter("last", lambda: _lift(last))
    elif judge.says_yes(seen, mode := Mode.UNPLANNED if place.east.dead or story.seed % 2 else Mode.PLANNED):
        stage.enter("last", lambda: _take_at_its_word(last, mode))
    stage.play(LONGEST_SECONDS)
    stage.dismiss()


def _take_at_its_word(last: Operator, mode: Mode) -> None:
    """Status says that this failover can start now."""
    last.place.stage.say(f"status says yes: {mode}, everything")
    last.place.writing = False  # what is written meanwhile may rightly void an approval
    if mode is Mode.UNPLANNED:
        last.place.source_dies()
    reported = _tried(lambda: last.failover(mode, ".*"))
    if not reported.endswith("is DONE"):
        last.place.violated("status GO is no lie", f"a failover of everything, {mode}, ends with {reported}")


def _lift(last: Operator) -> None:
    """Fences that stand though nothing wants them can be lifted by whoever is told of them."""
    reported = _tried(lambda: last.lift(of_promoted=False))
    for topic in judge.stray_fences(last.place):
        last.place.violated("a fence that stands can be lifted", f"{topic}: {reported}")


def _end(last: Operator) -> None:
    """What is unfinished can be run to its end, or aborted, whoever comes."""
    ran = _tried(last.go_on)
    aborted = "" if ran.endswith("is DONE") else _tried(last.abort)
    last.place.stage.say(f"ends it: {ran}; {aborted}")
    if last.place.view().unfinished(DR) is not None:
        last.place.violated("what is unfinished can be ended", f"run: {ran}; abort: {aborted}")


def _tried(deed: Callable[[], str]) -> str:
    try:
        return deed()
    except TanistError as why:
        return str(why)


def explore(first: int, runs: int, draw: Callable[[int], Story] = drawn) -> Iterator[Played]:
    """`draw`: the kind of story."""
    for seed in range(first, first + runs):
        yield play(draw(seed))


def shortest(found: Played, rule: str) -> Played:
    """The same violation with as little as possible, traced."""
    story, smaller = found.story, True
    while smaller:
        smaller = False
        for candidate in story.shorter():
            if play(candidate).broke(rule):
                story, smaller = candidate, True
                break
    return play(story, traced=True)


def describe(found: Played, rule: str) -> str:
    """For people: the seed, the story, what happened."""
    violation = next(each for each in found.violations if each.rule == rule)
    lines = [f"seed {found.story.seed} breaks {rule!r}: {violation.what}", "", *found.story.lines(), "", *found.trace]
    return "\n".join(lines)
