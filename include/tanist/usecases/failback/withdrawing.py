"""Withdraws a reversal that cannot be completed: the old source becomes what it was before, and its fence is set again.

That can be done until the mirror's state is at the old source. What producers have written there meanwhile is part of
the divergent tail then, which the next survey finds.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, Interrupted, MirrorLocked, OperatorFenced, Refused, TanistError
from tanist.domain.failback.outdated import promoted_since
from tanist.domain.failback.reversal import Reversal
from tanist.domain.fences import FenceStatus
from tanist.domain.moves import MoveStatus, TopicBefore, arrives
from tanist.domain.problems import each
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.ports.topics import TopicFacts
from tanist.usecases.failback.old_source import record_fences
from tanist.usecases.failback.reversal import PURPOSE, given_at_source, mirror_logins, topic_plans
from tanist.usecases.failback.reversal_route import TO_THE_MOVE
from tanist.usecases.failback.reversing import Reversing
from tanist.usecases.lock import mirror_lock
from tanist.usecases.runs.row import put_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.moves import MirrorMove
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import ReturnedMirror

_STAYS_UNFINISHED: Final = (AuthorizationFailed, MirrorLocked, OperatorFenced)
"""A permission can be granted; who has lost the lock changes nothing any more."""


class ReversalWithdrawn(Refused):
    name = "REVERSAL_WITHDRAWN"
    operator_action = (
        "the old source is as it was before, and its source fence is in force again; only topics that the plan "
        "recreates may be deleted: see `tanist failback survey`, then plan and approve the reversal again"
    )


class NoReversal(Refused):
    name = "NO_UNFINISHED_REVERSAL"
    operator_action = "nothing was changed"


def cannot_end(error: TanistError) -> bool:
    """Whether the same reversal would be refused again, however often it is run."""
    return any(isinstance(one, Refused) and not isinstance(one, _STAYS_UNFINISHED) for one in each(error))


def topics_before(made: Reversal, clusters: ReturnedMirror, command: CommandContext) -> tuple[TopicBefore, ...]:
    """What is stored with the plan before anything is changed at the old source.

    Raises:
        As `topic_plans`. CouldNotTell, BrokerError: the old source does not answer.
    """
    names, old = [each.topic for each in made.topics], clusters.source
    described = old.topics.describe(names, command.by)
    denied = old.opening.denied(names, command.by)
    again = {each.topic for each in made.topics if each.recreation is not None}
    view, there = (side.state(STATE_TOPIC, command.by) for side in (clusters.destination, clusters.source))
    mirrors, acls = mirror_logins(clusters, view, there), old.opening.writing(names, command.by)
    changes = {each.name: each.changes for each in topic_plans(clusters, there, names, command, again)}
    found = []
    for topic in made.topics:
        facts, name = described[topic.topic], topic.topic
        own = facts.configs if isinstance(facts, TopicFacts) else {}
        found.append(
            TopicBefore(
                mirror=clusters.spec.mirror,
                mirror_id=clusters.spec.mirror_id,
                topic=name,
                topic_id=facts.topic_id if isinstance(facts, TopicFacts) else "",
                ends=topic.ends or (0,) * len(topic.free_from),
                configs=tuple((config, own.get(config)) for config in sorted(changes[name])),
                shut=tuple(sorted(denied[name] & mirrors)),
                given=tuple(each for each in given_at_source(view, clusters.spec.mirror, name) if each in acls[name]),
            )
        )
    return tuple(found)


def _moved(move: MirrorMove) -> Interrupted:
    return Interrupted(f"mirror {move.mirror!r} is at {move.destination!r} already: the reversal can be completed")


def _at_no_point(_point: str) -> None:
    """Tests stop a withdrawal here."""


def put_back_all(of: Reversing, reason: str) -> NoReturn:
    """Put back what the rows have changed, and end the reversal. Killed in between, the next command continues here.

    Raises:
        ReversalWithdrawn: always, once it is done. Interrupted: the mirror's state has moved, or something could not be
            put back; run the command again.
    """
    _must_not_have_moved(of)
    reason = of.move.reason or reason
    if later := later_promotions(of.clusters, of.lock, of.command):
        _end(of, reason, later)
    if of.move.status is not MoveStatus.WITHDRAWING:
        of.move = replace(of.move, status=MoveStatus.WITHDRAWING, reason=reason)
        of.lock.append([of.move])
    of.checkpoint("withdrawing")
    put_back(TO_THE_MOVE, of)
    of.checkpoint("undone")
    _store_withdrawn(of, reason)
    raise ReversalWithdrawn(f"plan {of.move.plan} is withdrawn: {reason}")


def _end(of: Reversing, reason: str, later: str) -> NoReturn:
    """End the reversal without a change at the old source, which has taken over again since."""
    fences = [each for each in of.lock.view().source_fences(of.spec.mirror) if each.topic in of.returning]
    record_fences(of, fences, FenceStatus.LIFTED)
    _store_withdrawn(of, reason)
    raise ReversalWithdrawn(
        f"plan {of.move.plan} is withdrawn: {reason}; nothing was changed at {of.old.name!r}, which has taken over "
        f"again since: {later}"
    )


def _store_withdrawn(of: Reversing, reason: str) -> None:
    done = replace(of.move, status=MoveStatus.WITHDRAWN, reason=reason, at=of.command.clock.now())
    of.lock.append([*(Tombstone(each.key) for each in of.before().values()), done])


def _must_not_have_moved(of: Reversing) -> None:
    """Raises Interrupted if the state is at the old source. A late append of an earlier attempt is fenced here."""
    mirror, by = of.spec.mirror, of.command.by
    try:
        store = of.old.open_store(STATE_TOPIC, mirror, by)
    except UnknownTopicOrPartition:
        return
    with closing(store):
        there = store.catch_up(by).mirror(mirror)
    if there is not None and there.destination_cluster_id == of.move.cluster_id:
        raise _moved(of.move)


def later_promotions(clusters: ReturnedMirror, lock: LockedMirror, command: CommandContext) -> str:
    """The topics that the old source has taken over since the unfinished reversal was planned; empty: none."""
    spec, view = clusters.spec, lock.view()
    move, there = view.moving(spec.mirror), clusters.source.state(STATE_TOPIC, command.by)
    if move is None:
        return ""
    return promoted_since(Reversal.read(move.plan_json), spec.mirror, spec.mirror_id, (view, there))


def withdrawable(clusters: ReturnedMirror, command: CommandContext) -> MirrorMove:
    """The unfinished reversal that `withdraw` puts back. Raises NoReversal, or Interrupted. Changes nothing."""
    mirror = clusters.spec.mirror
    move = clusters.destination.state(STATE_TOPIC, command.by).moving(mirror)
    if move is None:
        raise NoReversal(f"no reversal of mirror {mirror!r} is unfinished at {clusters.destination.name!r}")
    if arrives(move, clusters.spec):
        raise _moved(move)
    return move


def withdraw(
    clusters: ReturnedMirror, reason: str, command: CommandContext, checkpoint: Callable[[str], None] = _at_no_point
) -> str:
    """Put back what an unfinished reversal has changed; returns what was done. `reason`: is stored with it.

    Raises:
        NoReversal: none is unfinished here. MirrorLocked. Interrupted: the mirror's state has moved already, or
        something could not be put back yet.
    """
    withdrawable(clusters, command)
    mirror = clusters.spec.mirror
    with mirror_lock(clusters.destination, mirror, PURPOSE, command) as lock:
        move = lock.view().moving(mirror)
        if move is None:
            raise NoReversal(f"the reversal of mirror {mirror!r} has been withdrawn by another command")
        try:
            put_back_all(Reversing(clusters, command, lock, checkpoint, move), reason)
        except ReversalWithdrawn as done:
            return done.reason
