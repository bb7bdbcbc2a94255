"""`tanist mirrors reverse`: a mirror that has failed over copies from its new primary to its old source.

A mirror's state is at its destination, which changes. In this order, under the lock of the mirror at the old
destination: a record that the mirror is moving; every other writer of the returning topics denied by name, and the
mirror allowed; the configs of mirror topics; the source fence lifted, as it denies the mirror, too; the mirror's state
at the new destination, in one transaction, with which copying begins, and which locks it there; a forwarding record at
the old one, in one transaction with the deletion of what was there; the end of the lock at the new one. Each step looks
at what is there, so after a kill the next command completes the reversal.

Once the source fence is lifted, producers that no ACL keeps off may write. Their records would lie below the offset
where copying begins, where nothing is compared: so before the state is written, each log may have grown by markers only
since it was surveyed. What has changed otherwise, and whatever else the plan does not fit, withdraws the reversal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import CLOSED, to_deny
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import Interrupted, Refused, TanistError, TimedOut
from tanist.domain.failback.outdated import ReversalOutdated
from tanist.domain.failback.reversal import Reversal
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.fences import FenceStatus, may_stand
from tanist.domain.kept_fences import fences_with
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.problems import each as each_of
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    MirrorSpec,
    TopicDesired,
)
from tanist.domain.tails import TailStage
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.usecases import state_topics
from tanist.usecases.failback.holding import release
from tanist.usecases.failback.recording import known_tails
from tanist.usecases.failback.recreating import Recreating
from tanist.usecases.failback.reversal import (
    PURPOSE,
    approval_of,
    given_at_source,
    last_withdrawn,
    mirror_logins,
    plan,
    topic_plans,
)
from tanist.usecases.failback.settling import Settling, end_arrival
from tanist.usecases.failback.withdrawing import ReversalWithdrawal, cannot_end, later_promotions, topics_before
from tanist.usecases.lock import mirror_lock
from tanist.usecases.mirrors import forget, take
from tanist.usecases.mirrors.create import remember_longer
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.failover.approving import Approval
    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import EpochMs
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.topics import NewTopic
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.reversal import ReversalRequest
    from tanist.usecases.failback.survey import ReturnContext
    from tanist.usecases.lock import LockedMirror

_PROVE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.2


class MirrorShutOut(TimedOut):
    name = "MIRROR_SHUT_OUT"
    operator_action = "remove the ACL that denies WRITE to everybody on these topics, then run the same command again"


class WritersRemain(Refused):
    name = "OTHER_WRITERS_REMAIN"
    operator_action = "they were allowed to write after the plan was made: plan the reversal again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversed:
    """What was done. `spec`: at the new destination. `changed`: False if that was done before."""

    spec: MirrorSpec
    plan: str
    topics: tuple[TopicDesired, ...]
    changed: bool = True
    warnings: tuple[str, ...] = ()


def at_no_point(_point: str) -> None:
    """Tests stop a reversal here."""


def reverse(
    request: ReversalRequest,
    clusters: ReturnContext,
    command: CommandContext,
    checkpoint: Callable[[str], None] = at_no_point,
) -> Reversed:
    """Reverse the mirror, or complete an interrupted reversal.

    Raises:
        NotApproved: with the command that approves the plan. MirrorLocked: another command changes the mirror.
        What `plan` raises; then nothing was changed. ReversalWithdrawn: the old source is as it was before.
    """
    mirror = clusters.spec.mirror
    if state_topics.read(clusters.destination, STATE_TOPIC, command.by).moving(mirror) is None:
        _approved(request, clusters, command)
    with mirror_lock(clusters.destination, mirror, PURPOSE, command) as lock:
        state_topics.still(lock.view(), clusters.spec)
        move = lock.view().moving(mirror)
        if move is None:
            move, stored = _approved(request, clusters, command)
            lock.append([*stored, move])
        return _Run(clusters, command, lock, checkpoint).complete(move)


def _approved(
    request: ReversalRequest, clusters: ReturnContext, command: CommandContext
) -> tuple[MirrorMove, list[StateRecord]]:
    """The move, and what is stored with it: the topics as they are, and the tails that are not done.

    Those go on record, as nobody surveys them once the mirror has moved.
    """
    planned = plan(request, clusters, command)
    view = state_topics.read(clusters.destination, STATE_TOPIC, command.by)
    known = known_tails(clusters, planned.found, view, command)
    approval = approval_of(planned.plan, request, clusters, command)
    last = last_withdrawn(clusters, command)
    used = last.approvals_used if last else ()
    move = replace(_move(planned.plan, approval, clusters.spec, command.clock.now()), used=used)
    tails = [each for each in known if each.stage is not TailStage.DONE]
    return move, [*topics_before(planned.plan, clusters, command), *tails]


def _move(made: Reversal, approval: Approval, spec: MirrorSpec, now: EpochMs) -> MirrorMove:
    return MirrorMove(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        destination=spec.source,
        cluster_id=spec.source_cluster_id,
        status=MoveStatus.MOVING,
        plan=made.hash,
        plan_json=made.canonical_plan,
        approval=approval.id,
        approver=approval.approver,
        at=now,
        producer_ids=spec.producer_ids,
    )


@dataclass(slots=True)
class _Run:
    """One attempt. `old`: the old source, the destination from now on. `primary`: the new primary, its source."""

    clusters: ReturnContext
    command: CommandContext
    lock: LockedMirror
    checkpoint: Callable[[str], None]

    @property
    def spec(self) -> MirrorSpec:
        return self.clusters.spec

    @property
    def old(self) -> Cluster:
        return self.clusters.source

    @property
    def primary(self) -> Cluster:
        return self.clusters.destination

    def complete(self, move: MirrorMove) -> Reversed:
        self.checkpoint("moving")
        reversal = Reversal.read(move.plan_json)
        warnings: tuple[str, ...] = ()
        if not self._has_moved(move):
            if later := later_promotions(self.clusters, self.lock, self.command):
                raise ReversalOutdated(f"{self.old.name!r} has taken over again since plan {move.plan}: {later}")
            warnings = self._move(reversal, move)
        self.checkpoint("state")
        self._release({each.topic for each in reversal.topics})
        for topic in (OFFSETS_TOPIC, GROUPS_TOPIC):
            self.lock.confirm()
            forget.everything(self.primary, self.lock, topic)
        self.checkpoint("forgotten")
        self.lock.leave(replace(move, status=MoveStatus.MOVED, at=self.command.clock.now()))
        self.checkpoint("left")
        end_arrival(self.old, self.spec.mirror, self.command)
        view = state_topics.read(self.old, STATE_TOPIC, self.command.by)
        spec = state_topics.spec_of(view, self.spec.mirror, self.old.name)
        if not any(self.command.clock.now() - each.at <= SILENT_MS for each in view.workers()):
            idle = (
                f"no fetcher of {spec.destination!r} is running: `tanist fetcher run --destination {spec.destination}`"
            )
            warnings = (*warnings, idle)
        return Reversed(spec=spec, plan=move.plan, topics=view.mirrored(spec.mirror), warnings=warnings)

    def _has_moved(self, move: MirrorMove) -> bool:
        there = state_topics.read(self.old, STATE_TOPIC, self.command.by).mirror(self.spec.mirror)
        return there is not None and (there.mirror_id, there.destination_cluster_id) == (
            self.spec.mirror_id,
            move.cluster_id,
        )

    def _move(self, reversal: Reversal, move: MirrorMove) -> tuple[str, ...]:
        """Bring the mirror's state to the old source; returns warnings. Raises ReversalWithdrawn.

        Its brokers are asked to remember producer ids longer before that: copying begins with the state.
        """
        withdrawal = ReversalWithdrawal(self.clusters, self.command, self.lock, self.checkpoint)
        if move.status is MoveStatus.WITHDRAWING:
            withdrawal.run(move, move.reason)
        try:
            Recreating(self.clusters, self.command, self.lock, self.checkpoint, self._new_topic).all(reversal)
            self._prepare(reversal)
            warnings = remember_longer(self.old, self.command.by)
            settling = Settling(self.clusters, self.command, self.lock, self.checkpoint)
            settling.make_ready()
            self._open([each.topic for each in reversal.topics])
            settling.settle(reversal, move)
        except TanistError as why:
            if cannot_end(why):
                withdrawal.run(move, "; ".join(f"{one.name}: {one.reason}" for one in each_of(why)))
            raise
        return warnings

    def _there(self) -> StateView:
        """What the state topic of the old source says now."""
        return state_topics.read(self.old, STATE_TOPIC, self.command.by)

    def _new_topic(self, name: str) -> NewTopic:
        (planned,) = topic_plans(self.clusters, self._there(), [name], self.command)
        return planned.new_topic()

    def _release(self, returning: set[str]) -> None:
        """Put back what topics that stay behind had before their records were held: nobody will do so later."""
        held = self.lock.view().retention_held(self.spec.mirror)
        failed = release(self.clusters, sorted(held.keys() - returning), self.lock)
        if there := {topic: why for topic, why in failed.items() if not isinstance(why, UnknownTopicOrPartition)}:
            self._must(there, "ALTER_CONFIGS on Topic")

    # ── the returning topics ──────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self, reversal: Reversal) -> None:
        """Everybody but the mirror is denied by name, and the topics are configured as mirror topics."""
        names = [each.topic for each in reversal.topics]
        mirrors = mirror_logins(self.clusters, self.lock.view(), self._there())
        denied = {each.topic: each.denied for each in reversal.topics}
        answers = self.old.opening.close(denied, self.lock.confirm_action(), mirrors)
        self._must(answers, "ALTER on Cluster kafka-cluster")
        self._take_back(names)
        self.checkpoint("denied")
        self._wait_until_closed(names, mirrors)
        self._configure(names, but=frozenset({MAX_MESSAGE_BYTES}))
        self.checkpoint("configured")
        held = self.lock.view().retention_held(self.spec.mirror)
        behind = [topic for topic in held if topic not in names]
        self._must(release(self.clusters, behind, self.lock), "ALTER_CONFIGS on topics")

    def _take_back(self, names: Sequence[str]) -> None:
        """Exactly the ACLs that an earlier failover to this cluster has created."""
        view, mirror = self.lock.view(), self.spec.mirror
        given = {name: acls for name in names if (acls := given_at_source(view, mirror, name))}
        if given:
            answers = self.old.opening.take_back(given, self.lock.confirm_action())
            self._must(answers, "ALTER on Cluster kafka-cluster")

    def _open(self, names: Sequence[str]) -> None:
        """For the mirror. Last of all: from here on whoever no ACL keeps off gets acknowledgements."""
        self._lift(names)
        self.checkpoint("lifted")
        self._configure(names)
        self._must_admit_the_mirror(names)

    def _wait_until_closed(self, names: Sequence[str], mirrors: frozenset[str]) -> None:
        """Raises WritersRemain: ACLs still allow somebody else to write."""
        by = self.command.clock.deadline(_PROVE_SECONDS)
        while True:
            rules = self.old.opening.writing(names, self.command.by)
            left = {name: to_deny(rules[name], mirrors) for name in names}
            if not any(left.values()):
                return
            if not by.left(self.command.clock.monotonic()):
                some = [f"{name}: {', '.join(who)}" for name, who in left.items() if who]
                raise WritersRemain("; ".join(some[:5]))
            self.command.clock.wait(_AGAIN_SECONDS)

    def _configure(self, names: Sequence[str], but: frozenset[str] = frozenset()) -> None:
        plans = topic_plans(self.clusters, self._there(), names, self.command)
        for each in plans:
            changes = {name: value for name, value in each.changes.items() if name not in but}
            if changes:
                take.make(self.old, [replace(each, changes=changes)], self.lock.confirm_action())

    def _lift(self, names: Sequence[str]) -> None:
        """The source fences of the topics, exactly as they were set; each is recorded as lifted."""
        held = [each for each in self.lock.view().source_fences(self.spec.mirror) if each.topic in names]
        standing = [each.before for each in held if each.before is not None and may_stand(each)]
        if not standing:
            return
        self._must(self.old.fencing.lift(standing, self.lock.confirm_action()), "ALTER on Cluster kafka-cluster")
        self.checkpoint("lifting")
        self._record_lifted(held)

    def _record_lifted(self, held: Iterable[FencedTopic]) -> None:
        after = [replace(each, status=FenceStatus.LIFTED, reason="") for each in held]
        before = self.lock.view().source_fences(self.spec.mirror)
        if changed := fences_with(before, after, self.spec, self.command.clock.now()):
            self.lock.append([changed])

    def _must_admit_the_mirror(self, names: Sequence[str]) -> None:
        """Raises MirrorShutOut: everybody is denied by an ACL that no source fence of this mirror has set."""
        by = self.command.clock.deadline(_PROVE_SECONDS)
        while True:
            rules = self.old.opening.writing(names, self.command.by)
            closed = [name for name in names if CLOSED in rules[name]]
            if not closed:
                return
            if not by.left(self.command.clock.monotonic()):
                raise MirrorShutOut(f"everybody is denied WRITE on {', '.join(closed[:5])} at {self.old.name!r}")
            self.command.clock.wait(_AGAIN_SECONDS)

    def _must(self, answers: Mapping[str, TanistError | None], right: str) -> None:
        failed = {name: named(why, self.old, right) for name, why in answers.items() if why is not None}
        if failed:
            name, why = next(iter(failed.items()))
            raise Interrupted(
                f"{len(failed)} topic(s) could not be changed at {self.old.name!r}; {name}: {why}"
            ) from why


# ── from the other side ───────────────────────────────────────────────────────────────────────────────────────────


def last_move(clusters: ReturnContext, command: CommandContext) -> MirrorMove | None:
    """The move that has brought the mirror to its present destination; None: there is none.

    `clusters`: of the mirror as it is now. MOVING: the old destination has yet to be completed.
    """
    move = state_topics.read(clusters.source, STATE_TOPIC, command.by).move(clusters.spec.mirror)
    if move is None or move.mirror_id != clusters.spec.mirror_id:
        return None
    return move if move.cluster_id == clusters.spec.destination_cluster_id else None


def reversed_before(move: MirrorMove, clusters: ReturnContext, command: CommandContext) -> Reversed | None:
    """What the reversal has done that `move` is of, while the mirror has not failed over since."""
    view = state_topics.read(clusters.destination, STATE_TOPIC, command.by)
    topics = view.mirrored(clusters.spec.mirror)
    return Reversed(spec=clusters.spec, plan=move.plan, topics=topics, changed=False) if topics else None
