"""The topics of the old source become mirror topics, and what they were before: ACLs, configs, source fences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.acl_entries import CLOSED, to_deny
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import Interrupted, Refused, TanistError, TimedOut
from tanist.domain.fences import FenceStatus, may_stand
from tanist.domain.kept_fences import fences_with
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.ports.topics import TopicFacts
from tanist.usecases.failback.recording import release
from tanist.usecases.failback.reversal import given_at_source
from tanist.usecases.mirrors import take
from tanist.usecases.mirrors.create import remember_longer
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.fences import FencedTopic
    from tanist.usecases.failback.reversing import Reversing

    _Rules: TypeAlias = Mapping[str, frozenset[AclEntry]]

_PROVE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.2
_ACLS: Final = "ALTER on Cluster kafka-cluster"


class MirrorShutOut(TimedOut):
    name = "MIRROR_SHUT_OUT"
    operator_action = "remove the ACL that denies WRITE to everybody on these topics, then run the same command again"


class WritersRemain(Refused):
    name = "OTHER_WRITERS_REMAIN"
    operator_action = "they were allowed to write after the plan was made: plan the reversal again"


# ── who may write ─────────────────────────────────────────────────────────────────────────────────────────────────


def deny_others(of: Reversing) -> None:
    """Everybody but the mirror, by name."""
    denied = {each.topic: each.denied for each in of.reversal.topics}
    answers = of.old.opening.close(denied, of.lock.confirm_action(), of.mirrors())
    of.must(answers, _ACLS)
    of.checkpoint("denied")


def undeny_others(of: Reversing) -> None:
    """What `deny_others` created is deleted, and the mirror denied again where it was."""
    denied = {each.topic: each.denied for each in of.reversal.topics}
    _must_be_back(of, of.old.opening.undeny(denied, of.lock.confirm_action()), _ACLS)
    shut = {each.topic: each.shut for each in of.before().values() if each.shut}
    _must_be_back(of, of.old.opening.deny(shut, of.lock.confirm_action()), _ACLS)


def take_back_given(of: Reversing) -> None:
    """Exactly the ACLs that an earlier failover to this cluster has created."""
    view, mirror = of.lock.view(), of.spec.mirror
    given = {name: acls for name in of.names if (acls := given_at_source(view, mirror, name))}
    if given:
        of.must(of.old.opening.take_back(given, of.lock.confirm_action()), _ACLS)


def give_again(of: Reversing) -> None:
    """What `take_back_given` has deleted."""
    given = {each.topic: each.given for each in of.before().values() if each.given}
    _must_be_back(of, of.old.opening.give(given, of.lock.confirm_action()), _ACLS)


def wait_until_closed(of: Reversing) -> None:
    """Raises WritersRemain: ACLs still allow somebody else to write."""
    mirrors = of.mirrors()

    def remaining(rules: _Rules) -> TanistError | None:
        left = {name: who for name in of.names if (who := to_deny(rules[name], mirrors))}
        some = [f"{name}: {', '.join(who)}" for name, who in left.items()]
        return WritersRemain("; ".join(some[:5])) if some else None

    _wait_for_acls(of, remaining)


def admit_mirror(of: Reversing) -> None:
    """The limit of message sizes, which a near fence has lowered, and the proof that no ACL denies everybody.

    Raises MirrorShutOut: one does, that no source fence of this mirror has set.
    """
    _configure(of)

    def shut_out(rules: _Rules) -> TanistError | None:
        closed = [name for name in of.names if CLOSED in rules[name]]
        why = f"everybody is denied WRITE on {', '.join(closed[:5])} at {of.old.name!r}"
        return MirrorShutOut(why) if closed else None

    _wait_for_acls(of, shut_out)


def _wait_for_acls(of: Reversing, problem: Callable[[_Rules], TanistError | None]) -> None:
    """Until who may write is no `problem`: brokers learn of ACLs one after the other. Raises it in the end."""
    by = of.command.clock.deadline(_PROVE_SECONDS)
    while (found := problem(of.old.acls.read(of.command.by).writing(of.names))) is not None:
        if not by.left(of.command.clock.monotonic()):
            raise found
        of.command.clock.wait(_AGAIN_SECONDS)


# ── configs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def configure(of: Reversing) -> None:
    """As mirror topics, but for the limit of message sizes, which may be a near fence."""
    _configure(of, but=frozenset({MAX_MESSAGE_BYTES}))
    of.checkpoint("configured")


def _configure(of: Reversing, but: frozenset[str] = frozenset()) -> None:
    for each in of.topic_plans(of.names):
        changes = {name: value for name, value in each.changes.items() if name not in but}
        if changes:
            take.make(of.old, [replace(each, changes=changes)], of.lock.confirm_action())


def configure_as_before(of: Reversing) -> None:
    """Not a topic that was recreated."""
    topics, before = of.old.topics, of.before()
    described = topics.describe(sorted(before), of.command.by)
    wanted: dict[str, dict[str, str | None]] = {}
    for name, earlier in before.items():
        facts = described[name]
        if not isinstance(facts, TopicFacts):
            _must_be_back(of, {name: facts}, f"DESCRIBE_CONFIGS on Topic {name}")
            continue
        if facts.topic_id != earlier.topic_id:
            continue
        changes = {config: value for config, value in earlier.configs if facts.configs.get(config) != value}
        if changes:
            wanted[name] = changes
    if wanted:
        of.lock.confirm()
        for name, answer in topics.alter_configs(wanted, of.command.by).items():
            _must_be_back(of, {name: answer}, f"ALTER_CONFIGS on Topic {name}")


def release_behind(of: Reversing) -> None:
    """What topics that stay behind had before their records were held; one that is gone has nothing to be put back.

    Nobody puts it back later: the old destination has no record of it any more.
    """
    held = of.lock.view().retention_held(of.spec.mirror)
    answers = release(of.clusters, sorted(held.keys() - of.returning), of.lock)
    failed = {name: why for name, why in answers.items() if not isinstance(why, UnknownTopicOrPartition)}
    of.must(failed, "ALTER_CONFIGS on Topic")


def remember_ids(of: Reversing) -> None:
    """The brokers are asked to remember producer ids longer: copying begins with the mirror's state."""
    of.warnings += remember_longer(of.old, of.command.by)


# ── source fences ─────────────────────────────────────────────────────────────────────────────────────────────────


def lift_fences(of: Reversing) -> None:
    """Exactly as they were set; each is recorded as lifted. From here on producers without a DENY may write."""
    held = [each for each in of.lock.view().source_fences(of.spec.mirror) if each.topic in of.returning]
    standing = [each.before for each in held if each.before is not None and may_stand(each)]
    if standing:
        of.must(of.old.fencing.lift(standing, of.lock.confirm_action()), _ACLS)
        of.checkpoint("lifting")
        record_fences(of, held, FenceStatus.LIFTED)
    of.checkpoint("lifted")


def fence_again(of: Reversing) -> None:
    """As they were before they were lifted; pending until the old source has accepted them."""
    held = of.lock.view().source_fences(of.spec.mirror)
    again = [each for each in held if each.topic in of.returning and each.before is not None]
    record_fences(of, again, FenceStatus.PENDING)
    before = [each.before for each in again if each.before is not None]
    if before:
        _must_be_back(of, of.old.fencing.apply(before, of.lock.confirm_action()), _ACLS)
    record_fences(of, again, FenceStatus.IN_FORCE)
    of.checkpoint("fenced")


def record_fences(of: Reversing, fences: Iterable[FencedTopic], status: FenceStatus) -> None:
    """Store that these have `status`."""
    held, now = of.lock.view().source_fences(of.spec.mirror), of.command.clock.now()
    after = [replace(each, status=status, reason="") for each in fences]
    if changed := fences_with(held, after, of.spec, now):
        of.lock.append([changed])


def _must_be_back(of: Reversing, answers: Mapping[str, TanistError | None], right: str) -> None:
    for name, error in answers.items():
        if error is not None and not isinstance(error, UnknownTopicOrPartition):
            why = named(error, of.old, right)
            raise Interrupted(f"{name!r} is not yet as it was before the reversal: {why}") from error
