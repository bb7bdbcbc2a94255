"""A test transaction shows that topics can be written to; then producers of the source may, and the mirror may not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import CouldNotTell
from tanist.domain.failover.plan import NOT_SHUT_OUT, has_accepted
from tanist.domain.logins import SETTING, principals
from tanist.domain.write_access import own_acls, to_give
from tanist.usecases.failover.step import WAIT_SECONDS, NotYet, must_all
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.usecases.failover.step import StepContext

_PROVE_SECONDS: Final = 5.0
"""Brokers learn of a rule within milliseconds of its making, each by itself."""


class MirrorNotShutOut(CouldNotTell):
    """Behind the point of no return: producers may write, the barrier stands, and the run is not done."""

    name, retriable = NOT_SHUT_OUT, False
    operator_action = (
        "remove the mirror's login from super.users, or set the principal that the brokers know it by "
        f"({SETTING}), or revoke its WRITE yourself; then run the same command again. Producers may write "
        "already"
    )


def probe(context: StepContext) -> Done:
    """Every topic takes a transaction that is aborted, so it can be written to, and no consumer sees that.

    It spends two offsets of one partition of each topic. Where there is an authorizer, the mirror may not write any
    more once producers may.
    """
    side, names = context.destination, [each.topic for each in context.taking_over()]
    context.session.confirm()
    answers = side.opening.canary(context.spec.mirror, names, context.by) if names else {}
    failed = {topic: named(error, side, f"WRITE on Topic {topic}") for topic, error in answers.items() if error}
    must_all(failed, "topic(s) did not accept the test transaction")
    context.checkpoint("canary:sung")
    context.session.mark("canary")
    return Done({"topics": sorted(answers)})


def do(context: StepContext) -> Done:
    if not context.spec.grant_writers:
        context.session.mark("open")
        writers = {each.topic: [str(acl) for acl in each.deferred_acls] for each in context.taking_over()}
        return Done({"topics": sorted(writers), "not_granted": writers})
    opening = context.destination.opening
    guarded = opening.has_authorizer(context.by)
    if guarded:
        _record(context)
    ours = context.taking_over()
    held = {topic.topic: topic.given or () for topic in ours}
    denied = {topic.topic: topic.denied for topic in ours if topic.denied}
    context.session.confirm()
    answers = opening.open(held, context.by, principals(context.facts.logins), denied=denied)
    side = context.destination
    failed = {topic: named(error, side, "ALTER on Cluster kafka-cluster") for topic, error in answers.items() if error}
    must_all(failed, "topic(s) could not be opened")
    writers = {topic.topic: [str(each) for each in topic.deferred_acls] for topic in ours}
    given = {topic: [str(each) for each in acls] for topic, acls in held.items()}
    detail = {"topics": sorted(answers), "authorizer": guarded, "writers": writers, "given": given}
    return Done(detail | _proved(context, sorted(answers)) if guarded else detail)


def _record(context: StepContext) -> None:
    """What is about to be created, of topics of which that is not on record: a reversal deletes exactly that."""
    due = [topic for topic in context.taking_over() if topic.given is None]
    if not due:
        return
    found = context.destination.acls.read(context.by).writing([topic.topic for topic in due])
    own, now = context.destination.opening.principal(), context.clock.now()
    mirrors = principals(context.facts.logins) or frozenset({own} if own else ())
    context.session.write(
        [
            replace(
                topic,
                given=to_give(topic.deferred_acls, own_acls(found[topic.topic], topic.denied), mirrors),
                changed_at=now,
            )
            for topic in due
        ]
    )
    context.checkpoint("open:stored")


def _proved(context: StepContext, topics: Sequence[str]) -> dict[str, Any]:
    """What the evidence says of the mirror. What is not proved is not said.

    Raises:
        MirrorNotShutOut: it may still write, and nobody has accepted that.
    """
    may = _may_write(context, topics)
    if may and not has_accepted(context.session.record, NOT_SHUT_OUT):
        raise MirrorNotShutOut(f"the mirror's login may still write to {len(may)} topic(s): {', '.join(may[:3])}")
    context.session.mark("open")
    own, reported = context.destination.opening.principal(), principals(context.facts.logins)
    proof = (
        "authorized operations of this login"
        if own in reported or not reported
        else "ACLs only: this login is not the mirror's"
    )
    mirror = sorted(reported) or [own or "not known"]
    return {"mirror": mirror, "shut_out": sorted(set(topics) - set(may)), "not_shut_out": may, "proof": proof}


def _may_write(context: StepContext, topics: Sequence[str]) -> list[str]:
    """The topics that the mirror may still write to, by its brokers' own word, once they have had time to learn."""
    clock, ours = context.clock, principals(context.facts.logins)
    by = clock.deadline(_PROVE_SECONDS)
    while True:
        reported = context.destination.opening.shut_out(topics, context.by, ours)
        if unknown := [f"{topic}: {reported[topic]}" for topic in topics if not isinstance(reported[topic], bool)]:
            raise NotYet(
                f"cannot determine what the mirror may do on {len(unknown)} topic(s): {'; '.join(unknown[:3])}"
            )
        may = [topic for topic in topics if reported[topic] is not True]
        if not may or not by.left(clock.monotonic()):
            return may
        context.session.wait(WAIT_SECONDS)
