"""What single rows promise, beyond what must hold after each of them: looked at directly after the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.explorer.circle import RETENTION_MS
from tests.explorer.place import DR, TOPICS
from tests.explorer.product import DecisionPlan, FenceStatus, MirrorPartition, TailAction, TailStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.explorer.circle import Circle
    from tests.explorer.product import StateView, TopicTails

UNDONE: Final = "what an abort puts back takes records again, or that is owed"
REPLAYED: Final = "what is replayed is in a log once that is on record"
ENDED: Final = "no approved transaction is open once it was aborted"
RELEASED: Final = "what stays behind has the retention of before"
EMPTY: Final = "a topic that is created again is there, without a record"


def done(circle: Circle, table: str, what: str) -> None:
    """A row was done. What a sleeper does late is no promise of the row: others have gone on meanwhile."""
    if (promise := PROMISES.get((table, what))) is not None and circle.late < 0:
        rule, problems = promise
        for problem in problems(circle):
            circle.violated(rule, f"{problem} (row {what} of {table})")


def _still_fenced(circle: Circle) -> Iterator[str]:
    view = circle.view()
    source = circle.named(circle.spec().source)
    for each in view.source_fences(DR) if source.name not in circle.off and not source.dead else ():
        owed = each.status in {FenceStatus.LIFT_PENDING, FenceStatus.PENDING}
        if circle.is_fenced(source, each.topic) and not owed and not view.promoted(DR, each.topic):
            yield f"{each.topic} is fenced at {source.name}, on record that is {each.status}"


def _not_replayed(circle: Circle) -> Iterator[str]:
    for view in circle.views():
        for tails in view.tails(DR):
            if tails.stage is TailStage.DONE and _all_is_replayed(view, tails):
                yield from _missing(circle, tails)


def _all_is_replayed(view: StateView, tails: TopicTails) -> bool:
    """Whether nothing of these is dropped; what is depends on keys."""
    decision = view.decision(DR, tails.decision)
    return decision is not None and {*DecisionPlan.read(decision.plan_json).actions.values()} == {TailAction.REPLAY}


def _missing(circle: Circle, tails: TopicTails) -> Iterator[str]:
    for tail in tails.with_records():
        at, into = (MirrorPartition(topic, tail.partition) for topic in (tails.topic, tails.quarantine))
        rescued = {
            record.number
            for each in circle.both
            if into in each.ends
            for offset, record in each.log(into, tail.copied_from, tail.copied_to)
            if each.producers[into, offset] == tails.producer_id
        }
        logged = {
            record.number
            for each in circle.both
            if at in each.ends
            for _, record in each.log(at)
            if record.origin >= 0 or each is circle.primary(at.topic)
        }
        if lacking := sorted(rescued - logged):
            yield f"{at} lacks {lacking}"


def _still_open(circle: Circle) -> Iterator[str]:
    old = circle.other(circle.home())
    return (f"{each.transactional_id} at {old.name}" for each in old.named)


def _still_held(circle: Circle) -> Iterator[str]:
    for topic in filter(circle.is_behind, TOPICS):
        old = circle.other(circle.primary(topic))
        if topic in old.topics and (now := old.topics[topic].configs.get("retention.ms")) != RETENTION_MS:
            yield f"{topic} has {now} at {old.name}"


def _not_there_or_used(circle: Circle) -> Iterator[str]:
    for cluster in circle.both:
        if (move := circle.state(cluster).moving(DR)) is not None:
            old = circle.other(cluster)
            for topic in circle.recreated(move):
                ends = [end for at, end in old.ends.items() if at.topic == topic]
                if not ends or any(high for _, _, high in ends):
                    yield f"{topic} at {old.name}: {ends or 'it is not there'}"


PROMISES: Final[Mapping[tuple[str, str], tuple[str, Callable[[Circle], Iterator[str]]]]] = {
    ("a failover", "undo fence"): (UNDONE, _still_fenced),
    ("a replay", "finish"): (REPLAYED, _not_replayed),
    ("an abort of transactions", "abort"): (ENDED, _still_open),
    ("a reversal", "release"): (RELEASED, _still_held),
    ("a recreation", "create"): (EMPTY, _not_there_or_used),
}
