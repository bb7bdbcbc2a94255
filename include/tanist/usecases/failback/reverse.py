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
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failback.outdated import ReversalOutdated
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.problems import each as each_of
from tanist.domain.records import STATE_TOPIC, MirrorSpec, TopicDesired
from tanist.domain.tails import TailStage
from tanist.usecases import state_topics
from tanist.usecases.failback.recording import known_tails
from tanist.usecases.failback.reversal import PURPOSE, approval_of, last_withdrawn, plan
from tanist.usecases.failback.reversal_route import BEHIND_THE_MOVE, TO_THE_MOVE
from tanist.usecases.failback.reversing import Reversing
from tanist.usecases.failback.withdrawing import cannot_end, later_promotions, put_back_all, topics_before
from tanist.usecases.lock import mirror_lock
from tanist.usecases.runs.row import do

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.failback.reversal import Reversal
    from tanist.domain.failover.approving import Approval
    from tanist.domain.names import EpochMs
    from tanist.domain.state_record import StateRecord
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.reversal import ReversalRequest
    from tanist.usecases.mirror import ReturnedMirror


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
    clusters: ReturnedMirror,
    command: CommandContext,
    checkpoint: Callable[[str], None] = at_no_point,
) -> Reversed:
    """Reverse the mirror, or complete an interrupted reversal.

    Raises:
        NotApproved: with the command that approves the plan. MirrorLocked: another command changes the mirror.
        What `plan` raises; then nothing was changed. ReversalWithdrawn: the old source is as it was before.
    """
    mirror = clusters.spec.mirror
    if clusters.destination.state(STATE_TOPIC, command.by).moving(mirror) is None:
        _approved(request, clusters, command)
    with mirror_lock(clusters.destination, mirror, PURPOSE, command) as lock:
        state_topics.still(lock.view(), clusters.spec)
        move = lock.view().moving(mirror)
        if move is None:
            move, stored = _approved(request, clusters, command)
            lock.append([*stored, move])
        return _complete(Reversing(clusters, command, lock, checkpoint, move))


def _approved(
    request: ReversalRequest, clusters: ReturnedMirror, command: CommandContext
) -> tuple[MirrorMove, list[StateRecord]]:
    """The move, and what is stored with it: the topics as they are, and the tails that are not done.

    Those go on record, as nobody surveys them once the mirror has moved.
    """
    planned = plan(request, clusters, command)
    view = clusters.destination.state(STATE_TOPIC, command.by)
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


def _complete(of: Reversing) -> Reversed:
    """The rows that are left; where they cannot be completed, those that can be put back, backwards."""
    of.checkpoint("moving")
    if not _has_moved(of):
        if later := later_promotions(of.clusters, of.lock, of.command):
            raise ReversalOutdated(f"{of.old.name!r} has taken over again since plan {of.move.plan}: {later}")
        _bring_state(of)
    of.checkpoint("state")
    do(BEHIND_THE_MOVE, of)
    view = of.there()
    spec = state_topics.spec_of(view, of.spec.mirror, of.old.name)
    if not any(of.command.clock.now() - each.at <= SILENT_MS for each in view.workers()):
        of.warnings.append(
            f"no fetcher of {spec.destination!r} is running: `tanist fetcher run --destination {spec.destination}`"
        )
    return Reversed(spec=spec, plan=of.move.plan, topics=view.mirrored(spec.mirror), warnings=tuple(of.warnings))


def _has_moved(of: Reversing) -> bool:
    there = of.there().mirror(of.spec.mirror)
    pinned = (of.spec.mirror_id, of.move.cluster_id)
    return there is not None and (there.mirror_id, there.destination_cluster_id) == pinned


def _bring_state(of: Reversing) -> None:
    """Bring the mirror's state to the old source. Raises ReversalWithdrawn."""
    if of.move.status is MoveStatus.WITHDRAWING:
        put_back_all(of, of.move.reason)
    try:
        do(TO_THE_MOVE, of)
    except TanistError as why:
        if cannot_end(why):
            put_back_all(of, "; ".join(f"{one.name}: {one.reason}" for one in each_of(why)))
        raise


# ── from the other side ───────────────────────────────────────────────────────────────────────────────────────────


def last_move(clusters: ReturnedMirror, command: CommandContext) -> MirrorMove | None:
    """The move that has brought the mirror to its present destination; None: there is none.

    `clusters`: of the mirror as it is now. MOVING: the old destination has yet to be completed.
    """
    move = clusters.source.state(STATE_TOPIC, command.by).move(clusters.spec.mirror)
    if move is None or move.mirror_id != clusters.spec.mirror_id:
        return None
    return move if move.cluster_id == clusters.spec.destination_cluster_id else None


def reversed_before(move: MirrorMove, clusters: ReturnedMirror, command: CommandContext) -> Reversed | None:
    """What the reversal has done that `move` is of, while the mirror has not failed over since."""
    view = clusters.destination.state(STATE_TOPIC, command.by)
    topics = view.mirrored(clusters.spec.mirror)
    return Reversed(spec=clusters.spec, plan=move.plan, topics=topics, changed=False) if topics else None
