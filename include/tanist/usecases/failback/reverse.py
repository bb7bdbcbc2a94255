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

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.approval.entries import ApprovalUsed, NotApproved
from tanist.domain.circle import CircleStage, ReversalStatus, locate, pending_reversal
from tanist.domain.errors import TanistError
from tanist.domain.failback.outdated import ReversalOutdated
from tanist.domain.failback.unseen import LimitationsUnseen, unseen
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.problems import each as each_of
from tanist.domain.records import STATE_TOPIC, MirrorSpec, TopicDesired
from tanist.domain.tails import TailStage
from tanist.usecases import snapshot
from tanist.usecases.approvals import approve_at_once
from tanist.usecases.failback.moving_state import end_arrival
from tanist.usecases.failback.recording import known_tails
from tanist.usecases.failback.reversal import (
    PURPOSE,
    AnotherReversal,
    ReversalRequest,
    approval_of,
    approve,
    last_withdrawn,
    plan,
)
from tanist.usecases.failback.reversal_route import REVERSAL, cannot_end, put_back_all, topics_before
from tanist.usecases.failback.reversing import Reversing
from tanist.usecases.lock import mirror_lock
from tanist.usecases.runs.runner import BEGINS, DONE, NOT_YET, UNREPORTED, add_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.failback.reversal import Reversal
    from tanist.domain.records import FailoverRun
    from tanist.domain.state_record import StateRecord
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.reversal import PlannedReversal
    from tanist.usecases.mirror import OpenMirror, ReturnedMirror
    from tanist.usecases.runs.runner import Reporting, Sink

_SETTLE_SECONDS: Final = 30.0
_REVERSE: Final = "reverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversed:
    """What was done. `spec`: at the new destination. `changed`: False if that was done before."""

    spec: MirrorSpec
    plan: str
    topics: tuple[TopicDesired, ...]
    changed: bool = True
    warnings: tuple[str, ...] = ()


def _at_no_point(_point: str) -> None:
    """Tests stop a reversal here."""


def reverse(
    request: ReversalRequest,
    clusters: ReturnedMirror,
    command: CommandContext,
    checkpoint: Callable[[str], None] = _at_no_point,
    to: Reporting = UNREPORTED,
) -> Reversed:
    """Reverse the mirror, or complete an interrupted reversal. `to`: where it reports.

    Raises:
        NotApproved: with the command that approves the plan. MirrorLocked: another command changes the mirror.
        What `plan` raises; then nothing was changed. ReversalWithdrawn: the old source is as it was before.
    """
    mirror = clusters.spec.mirror
    if clusters.destination.state(STATE_TOPIC, command.by).moving(mirror) is None:
        _approved(request, clusters, command)
    with mirror_lock(clusters.destination, mirror, PURPOSE, command) as lock:
        snapshot.still(lock.view(), clusters.spec)
        move = lock.view().moving(mirror)
        if move is None:
            move, stored = _approved(request, clusters, command)
            lock.append([*stored, move])
        return _complete(Reversing.of(move, clusters, lock, command, checkpoint=checkpoint, to=to))


def _approved(
    request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext
) -> tuple[MirrorMove, list[StateRecord]]:
    """The move, and what is stored with it: the topics as they are, and the tails that are not done.

    Those go on record, as nobody surveys them once the mirror has moved.
    """
    planned = plan(request, clusters, command)
    _must_be_asked_for(planned.plan, request)
    view = clusters.destination.state(STATE_TOPIC, command.by)
    known = known_tails(clusters, planned.found, view, command)
    approval = approval_of(planned.plan, request, clusters, command)
    spec, last = clusters.spec, last_withdrawn(clusters, command)
    move = MirrorMove(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        destination=spec.source,
        cluster_id=spec.source_cluster_id,
        status=MoveStatus.MOVING,
        plan=planned.plan.hash,
        plan_json=planned.plan.canonical_plan,
        approval=approval.id,
        approver=approval.approver,
        at=command.clock.now(),
        producer_ids=tuple(spec.writer),
        used=last.approvals_used if last else (),
    )
    tails = [each for each in known if each.stage is not TailStage.DONE]
    return move, [*topics_before(planned.plan, clusters, command), *tails]


def _must_be_asked_for(made: Reversal, request: ReversalRequest) -> None:
    """Raises AnotherReversal where the clusters make another plan than the request names."""
    if request.only is not None and made.hash != request.only:
        raise AnotherReversal(f"{request.only} was requested, but the plan is now {made.hash}")


def _complete(of: Reversing) -> Reversed:
    """The rows that are left; where they cannot be completed, those that can be put back, backwards."""
    of.checkpoint("moving")
    place = locate(of.spec.mirror, of.lock.view(), of.there())
    if place.stage is CircleStage.OUTDATED:
        raise ReversalOutdated(f"{of.old.name!r} has taken over again since plan {of.move.plan}: {place.later}")
    if place.stage is not CircleStage.HANDED_OVER:
        _bring_state(of)
    of.checkpoint("state")
    of.rows.do(REVERSAL, of, after=REVERSAL.no_return)
    view = of.there()
    spec = snapshot.spec_of(view, of.spec.mirror, of.old.name)
    if not any(of.command.clock.now() - each.at <= SILENT_MS for each in view.workers()):
        of.warnings.append(
            f"no fetcher of {spec.destination!r} is running: `tanist fetcher run --destination {spec.destination}`"
        )
    return Reversed(spec=spec, plan=of.move.plan, topics=view.mirrored(spec.mirror), warnings=tuple(of.warnings))


def _bring_state(of: Reversing) -> None:
    """Bring the mirror's state to the old source. Raises ReversalWithdrawn."""
    if of.move.status is MoveStatus.WITHDRAWING:
        put_back_all(of, of.move.reason)
    try:
        of.rows.do(REVERSAL, of, until=REVERSAL.no_return)
    except TanistError as why:
        if cannot_end(why):
            put_back_all(of, "; ".join(f"{one.name}: {one.reason}" for one in each_of(why)))
        raise


# ── from the other side ───────────────────────────────────────────────────────────────────────────────────────────


def reverse_mirror(
    request: ReversalRequest,
    clusters: ReturnedMirror,
    command: CommandContext,
    checkpoint: Callable[[str], None] = _at_no_point,
    to: Reporting = UNREPORTED,
) -> Reversed:
    """Reverse a mirror; or complete an interrupted reversal, also one that has brought it to where it is now.

    If the mirror has failed over since that one, the request is for the next one. Raises as `reverse`.
    """
    mirror, by = clusters.spec.mirror, command.by
    here = clusters.destination.state(STATE_TOPIC, by)
    snapshot.spec_of(here, mirror, clusters.destination.name)
    place = locate(mirror, here, clusters.source.state(STATE_TOPIC, by))
    if place.source_is_incomplete:
        done = reverse(request, clusters.from_source(command).returned(), command, checkpoint, to)
        if done.topics:
            return done
    else:
        completed = place.arrival is not None and end_arrival(clusters.destination, mirror, command)
        if place.came_by is not None and place.mirrored:
            return Reversed(spec=clusters.spec, plan=place.came_by.plan, topics=place.mirrored, changed=completed)
    return reverse(request, clusters, command, checkpoint, to)


def reverse_at_once(
    request: ReversalRequest,
    clusters: ReturnedMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
    show: Callable[[PlannedReversal], object],
    to: Reporting = UNREPORTED,
) -> Reversed:
    """As `reverse_mirror`; a plan that nobody has approved is approved first. `show`: is given that plan before.

    Raises:
        LimitationsUnseen: the request names neither the plan nor what speaks against it. Otherwise as `reverse_mirror`,
        `approve_at_once` and `reversal.approve`.
    """
    try:
        return reverse_mirror(request, clusters, command, to=to)
    except (NotApproved, ApprovalUsed):  # nothing was changed
        planned = plan(request, clusters, command, approves=True)
    made, spec = planned.plan, clusters.spec
    _must_be_asked_for(made, request)
    show(planned)
    typed = partial(request.command, spec.mirror, clusters.destination.name)
    new = () if request.only else unseen(made.limitations, request.accept)
    if new:
        accepting = (word for each in new for word in ("--accept", each.name))
        named = "; ".join(f"{each.name}: {each.detail}" for each in new)
        raise LimitationsUnseen(
            f"nobody has accepted {named}. To accept all of it: {typed(*accepting, '--reason', terms.reason)}"
        )
    approve_at_once(
        lambda: approval_of(made, request, clusters, command),
        lambda: approve(made.hash, request, clusters, command, terms=terms),
        (typed("--approve", made.hash, "--reason", terms.reason), typed()),
        command,
    )
    return reverse_mirror(request, clusters, command, to=to)


# ── after a failover ──────────────────────────────────────────────────────────────────────────────────────────────


def switched(clusters: ReturnedMirror, to: str, command: CommandContext) -> FailoverRun | None:
    """The failover by which the cluster with the id `to` has taken over, as `MirrorPlace.switch_to` finds it.

    `clusters`: of the mirror where it is now. If that is at `to`, its source is not asked: it may be lost by then.
    """
    here = clusters.destination.state(STATE_TOPIC, command.by)
    at_source = None if clusters.spec.destination_cluster_id == to else clusters.source.state(STATE_TOPIC, command.by)
    return locate(clusters.spec.mirror, here, at_source).switch_to(to)


def reverse_after(failover: str, opened: OpenMirror, evidence: Sink, command: CommandContext) -> Reversed | None:
    """Reverse the mirror once the failover `failover` is done, if its plan has a reversal; or complete that.

    None: the plan has none, or the mirror has failed over again since. For a while it waits for what is not settled
    right after the failover, such as markers of the old source's coordinators. `evidence`: of the failover.

    Raises as `returned`, and as `reverse_mirror`.
    """
    view = opened.destination.state(STATE_TOPIC, command.by)
    run = view.failover(opened.spec.mirror, failover)
    plan = plan_of(run) if run is not None else None
    if plan is None or not plan.intent.reverse:
        return None
    clusters = opened.returned()
    last = switched(clusters, plan.intent.destination_cluster_id, command)
    if last is None or last.plan != failover:
        return None
    add_event(evidence, command.clock, _REVERSE, BEGINS, {})
    try:
        done = _once_settled(ReversalRequest(failover=failover), clusters, command)
    except TanistError as why:
        add_event(evidence, command.clock, _REVERSE, NOT_YET, {"reason": str(why)})
        raise
    where = {"source": done.spec.source, "destination": done.spec.destination}
    add_event(evidence, command.clock, _REVERSE, DONE, {"plan_hash": done.plan} | where)
    return done


def by_failover(request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext) -> ReversalRequest | None:
    """The same reversal by the approval of the failover before it, where that one is done and its reversal is not.

    None: that failover has approved none, or not as the clusters are now; or the request leaves out, accepts or
    recreates something, which no failover has approved.

    Raises what `plan` does.
    """
    view = clusters.destination.state(STATE_TOPIC, command.by)
    left = pending_reversal(view, clusters.spec.mirror)
    if request.options or left is None or left.status is not ReversalStatus.PENDING:
        return None
    asked = ReversalRequest(failover=left.plan)
    try:
        approval_of(plan(asked, clusters, command, approves=True).plan, asked, clusters, command)
    except NotApproved:
        return None
    return asked


def _once_settled(request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext) -> Reversed:
    by = command.clock.deadline(_SETTLE_SECONDS)
    while True:
        try:
            return reverse_mirror(request, clusters, command)
        except TanistError as why:
            if not by.left(command.clock.monotonic()) or not all(one.retriable for one in each_of(why)):
                raise
            command.clock.wait(1.0)
