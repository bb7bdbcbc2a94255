"""Back to exactly what there was, while that is still possible."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.fences import FencedTopic, FenceStatus, may_stand
from tanist.domain.records import RunStatus
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.failover.answers import attempt
from tanist.usecases.failover.steps.fence import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.failover.plan import Intent
    from tanist.domain.fences import FenceBefore
    from tanist.domain.names import EpochMs
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.failover.session import RunSession
    from tanist.usecases.mirror import OpenMirror


def undo(
    session: RunSession, clusters: OpenMirror, intent: Intent, reason: str, checkpoint: Callable[[str], None]
) -> list[str]:
    """Lift the fences of this run's topics and end it; topics whose fence could not be lifted stay owed.

    Never that of a topic that has taken over: both sides could be written to.
    """
    view, mirror = session.view(), intent.mirror
    names = frozenset(name for name in intent.names if not view.promoted(mirror, name))
    ours = [each for each in view.source_fences(mirror) if each.topic in names]
    session.confirm()
    clock = session.command.clock
    after = lifted(clusters, ours, clock.deadline(2 * SOURCE_SECONDS), clock.now())
    store(session, clusters.spec, after)
    checkpoint("abort:lifted")
    session.save(status=RunStatus.ABORTED, reason=reason)
    return [each.topic for each in after if each.status is FenceStatus.LIFT_PENDING]


def lifted(clusters: OpenMirror, entries: Iterable[FencedTopic], by: Deadline, now: EpochMs) -> list[FencedTopic]:
    """`entries` after lifting. What was never set is owed no more; where an answer was lost it may be in force."""
    held = list(entries)
    fences = [each.before for each in held if each.before and may_stand(each)]
    answers = _lifted_at(clusters.source, fences, by) if fences else {}
    after = []
    for each in held:
        if (error := _answer(each, answers)) is None:
            after.append(replace(each, status=FenceStatus.LIFTED, reason="", proved_at=None, lift_asked_at=None))
        else:
            asked = each.lift_asked_at or now
            after.append(replace(each, status=FenceStatus.LIFT_PENDING, reason=str(error), lift_asked_at=asked))
    return after


def _lifted_at(
    source: Cluster | TanistError, fences: Sequence[FenceBefore], by: Deadline
) -> Mapping[str, TanistError | None] | TanistError:
    """By topic why its fence may still be in force. One that is not, as the source says, has nothing to lift.

    A login that may not lift a fence could not set it either.
    """
    if isinstance(source, TanistError):
        return source
    answers = attempt(lambda: source.fencing.lift(fences, by))
    if isinstance(answers, TanistError) or not any(answers.values()):
        return answers
    failed = [each for each in fences if answers.get(each.topic) is not None]
    stands = attempt(lambda: source.fencing.fence_status(failed, by))
    gone = set() if isinstance(stands, TanistError) else {topic for topic, found in stands.items() if found is False}
    return {topic: None if topic in gone else error for topic, error in answers.items()}


def _answer(each: FencedTopic, answers: Mapping[str, TanistError | None] | TanistError) -> TanistError | None:
    if not may_stand(each):
        return None
    return answers if isinstance(answers, TanistError) else answers.get(each.topic)
