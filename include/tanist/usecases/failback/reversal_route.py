"""The rows of a reversal. Its point of no return: the mirror's state is at the old source."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.circle import CircleStage, locate
from tanist.domain.errors import AuthorizationFailed, Interrupted, MirrorLocked, OperatorFenced, Refused, TanistError
from tanist.domain.failback.pending import last_tails
from tanist.domain.fences import FenceStatus
from tanist.domain.moves import MoveStatus, TopicBefore
from tanist.domain.problems import each
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.domain.state_view import NOTHING_YET
from tanist.ports.topics import TopicFacts
from tanist.usecases.failback import moving_state, old_source, recreating
from tanist.usecases.failback.old_source import record_fences
from tanist.usecases.failback.reversal import PURPOSE, given_at_source, mirror_logins, topic_plans
from tanist.usecases.failback.reversing import Reversing
from tanist.usecases.lock import mirror_lock
from tanist.usecases.runs.runner import BEGINS, UNDONE, UNREPORTED, RunRow, RunTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.failback.reversal import Reversal
    from tanist.domain.moves import MirrorMove
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.runs.runner import Reporting


REVERSAL: Final[RunTable[Reversing, Reversing, None]] = RunTable(
    "a reversal",
    (
        RunRow("recreate", "topics that cannot return as they are were created again", recreating.recreate),
        RunRow(
            "take_back",
            "ACLs that an earlier failover has created at the old source are deleted",
            old_source.take_back_given,
            old_source.give_again,
        ),
        RunRow(
            "deny",
            "every other principal that may write to the topics is denied WRITE by name",
            old_source.deny_others,
            old_source.undeny_others,
        ),
        RunRow("closed", "nobody else may write, as far as ACLs say", old_source.wait_until_closed),
        RunRow(
            "configure",
            "the topics have the configurations of mirror topics",
            old_source.configure,
            old_source.configure_as_before,
        ),
        RunRow("remember", "brokers of the old source remember producer ids longer", old_source.remember_ids),
        RunRow("ready", "the topics of the mirror's state are at the old source", moving_state.make_ready),
        RunRow("lift", "the source fences are lifted", old_source.lift_fences, old_source.fence_again),
        RunRow("admit", "the mirror may write to the topics", old_source.admit_mirror),
        RunRow("settle", "the mirror's state is at the old source (the point of no return)", moving_state.settle),
        RunRow("release", "topics that stay behind have the retention of before", old_source.release_behind),
        RunRow(
            "forget",
            "the old destination has no offset maps and positions of groups any more",
            moving_state.forget_state,
        ),
        RunRow("leave", "the old destination has a forwarding record", moving_state.leave),
        RunRow("arrive", "the mirror is unlocked at its new destination", moving_state.arrive),
    ),
    no_return="settle",
)
"""What topics that stay behind had is put back once nothing can be withdrawn: until then their tails are held.

Steps that let a producer write come last: a record that is acknowledged at the old source withdraws the reversal.

ACLs of an earlier failover are taken back before others are denied, and given again after these are allowed again: both
may be the same DENY.
"""


WITHDRAW: Final = "withdraw"
_STAYS_UNFINISHED: Final = (AuthorizationFailed, MirrorLocked, OperatorFenced)
"""A permission can be granted; who has lost the lock changes nothing any more."""


class ReversalWithdrawn(Refused):
    name = "REVERSAL_WITHDRAWN"
    operator_action = (
        "the old source is as it was before, and its source fence is in force again; only topics that the plan "
        "recreates may be deleted: see `tanist failback survey`, then plan and approve the reversal again"
    )


class ReversalEnded(ReversalWithdrawn):
    """There was nothing to put back: the old source has taken over again since, and is the new primary."""

    operator_action = "the old source is the primary now, and was not changed: see `tanist mirrors list`"


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
    at_old = old.acls.read(command.by)
    denied = at_old.denied_by_name(names)
    again = {each.topic for each in made.topics if each.recreation is not None}
    view, there = (side.state(STATE_TOPIC, command.by) for side in (clusters.destination, clusters.source))
    mirrors, acls = mirror_logins(clusters, view, there), at_old.writing(names)
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
    place = locate(of.spec.mirror, of.lock.view(), _fenced(of))
    if place.stage is CircleStage.HANDED_OVER:
        raise _moved(of.move)
    reason = of.move.reason or reason
    if place.stage is CircleStage.OUTDATED:
        _end(of, reason, place.later)
    if of.move.status is not MoveStatus.WITHDRAWING:
        of.move = replace(of.move, status=MoveStatus.WITHDRAWING, reason=reason)
        of.lock.append([of.move])
    of.checkpoint("withdrawing")
    of.rows.journal.report(WITHDRAW, BEGINS, {"reason": reason})
    REVERSAL.put_back(of)
    of.rows.journal.report(WITHDRAW, UNDONE, {"reason": reason})
    of.checkpoint("undone")
    _store_withdrawn(of, reason, _to_survey_again(of))
    raise ReversalWithdrawn(f"plan {of.move.plan} is withdrawn: {reason}")


def _end(of: Reversing, reason: str, later: str) -> NoReturn:
    """End the reversal without a change at the old source, which has taken over again since."""
    fences = [each for each in of.lock.view().source_fences(of.spec.mirror) if each.topic in of.returning]
    record_fences(of, fences, FenceStatus.LIFTED)
    _store_withdrawn(of, reason)
    raise ReversalEnded(
        f"plan {of.move.plan} is withdrawn: {reason}; nothing was changed at {of.old.name!r}, which has taken over "
        f"again since: {later}"
    )


def _to_survey_again(of: Reversing) -> list[Tombstone]:
    """Of returning topics that had no tail: producers may have written to the old source while its fence was lifted."""
    tails = last_tails(of.lock.view(), of.spec.mirror)
    return [Tombstone(each.key) for each in tails if each.topic in of.returning and not each.with_records()]


def _store_withdrawn(of: Reversing, reason: str, more: Sequence[Tombstone] = ()) -> None:
    done = replace(of.move, status=MoveStatus.WITHDRAWN, reason=reason, at=of.command.clock.now())
    of.lock.append([*(Tombstone(each.key) for each in of.before().values()), *more, done])


def _fenced(of: Reversing) -> StateView:
    """The state topic of the old source, at which a late append of an earlier attempt is fenced now."""
    try:
        store = of.old.open_store(STATE_TOPIC, of.spec.mirror, of.command.by)
    except UnknownTopicOrPartition:
        return NOTHING_YET
    with closing(store):
        return store.catch_up(of.command.by)


def withdrawable(clusters: ReturnedMirror, command: CommandContext) -> MirrorMove:
    """The unfinished reversal that `withdraw` puts back. Raises NoReversal, or Interrupted. Changes nothing."""
    mirror = clusters.spec.mirror
    place = locate(mirror, clusters.destination.state(STATE_TOPIC, command.by))
    if place.arrival is not None:
        raise _moved(place.arrival)
    if place.departure is None:
        raise NoReversal(f"no reversal of mirror {mirror!r} is unfinished at {clusters.destination.name!r}")
    return place.departure


def withdraw(
    clusters: ReturnedMirror,
    reason: str,
    command: CommandContext,
    checkpoint: Callable[[str], None] = _at_no_point,
    to: Reporting = UNREPORTED,
) -> str:
    """Put back what an unfinished reversal has changed; returns what was done. `reason`: is stored with it.

    Raises:
        NoReversal: none is unfinished here. MirrorLocked. Interrupted: the mirror's state has moved already, or
        something could not be put back yet.
    """
    mirror = withdrawable(clusters, command).mirror
    with mirror_lock(clusters.destination, mirror, PURPOSE, command) as lock:
        move = lock.view().moving(mirror)
        if move is None:
            raise NoReversal(f"the reversal of mirror {mirror!r} has been withdrawn by another command")
        try:
            put_back_all(Reversing.of(move, clusters, lock, command, checkpoint=checkpoint, to=to), reason)
        except ReversalWithdrawn as done:
            return done.reason
