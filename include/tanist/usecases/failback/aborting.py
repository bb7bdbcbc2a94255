"""`tanist failback abort-transactions`: ends transactions of an old source that stay open after its return.

Only those are aborted that an approver has seen, each looked for again directly before: a transaction that has ended
since, or that its producer has begun anew, is left alone. So the command may be run again at any time.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.entries import NotApproved, NotPermitted
from tanist.domain.checks import named as some
from tanist.domain.errors import BrokerError
from tanist.domain.failback.open_transactions import AbortPlan, NoOpenTransactions, SourceNotFenced
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases import approvals
from tanist.usecases.approvals import PlanKind, approve_at_once, permit
from tanist.usecases.failback.survey import failed_over, see_returned
from tanist.usecases.failover.planning import AnotherPlan
from tanist.usecases.lock import LockedMirror, changing, ensure_unlocked
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import UNREPORTED, RowRunner, RunRow, RunTable, Unrecorded
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failback.open_transactions import ReturnedTransaction
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.usecases.approvals import ApprovalTerms, Permit
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import Rehearsal
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.runs.runner import Reporting

ABORT_COLUMNS: Final = ("transactional_id", "producer_id", "state", "age_s", "partitions", "aborted")


class AbortNotApproved(NotApproved):
    operator_action = "nothing was aborted"


class AnotherAbort(AnotherPlan):
    operator_action = "`tanist failback abort-transactions NAME --dry-run` shows the current plan; nothing was approved"


class AbortRefused(NotPermitted):
    name = "ABORT_NOT_PERMITTED"
    operator_action = (
        "see the current plan with `tanist failback abort-transactions NAME --dry-run` and have it approved; "
        "nothing was aborted"
    )


ABORTS: Final = PlanKind(
    read=AbortPlan.read,
    unreadable="does not abort transactions",
    fits=lambda plan, spec: (plan.mirror_id, plan.source_cluster_id) == (spec.id, spec.source_cluster_id),
    unfit="the plan is for another mirror, or for another source than the mirror has now",
    not_approved=AbortNotApproved,
    not_permitted=AbortRefused,
    another=AnotherAbort,
    command=(
        "tanist failback abort-transactions {mirror} --destination {destination} --approve {plan} --reason 'as shown'"
    ),
    without_topic=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAbort:
    """`ending`: transactions whose markers a coordinator is about to write: nobody has to abort them."""

    plan: AbortPlan
    ending: tuple[ReturnedTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortOutcome:
    """`aborted`: by this call. `still_open`: of the approved ones, seen afterwards."""

    plan: str
    aborted: tuple[ReturnedTransaction, ...]
    still_open: tuple[ReturnedTransaction, ...]


def plan_abort(clusters: ReturnedMirror, topics: Selection, command: CommandContext) -> PlannedAbort:
    """The open transactions of the topics that the mirror has failed over; changes nothing.

    Raises:
        NothingFailedOver, TopicNotInMirror. SourceNotFenced: producers may still begin others. MirrorLocked.
        TransactionalIdAuthorizationFailed, UnsupportedVersion: not all are reported to this login.
        CouldNotTell, BrokerError: a cluster does not answer.
    """
    view = clusters.destination.state(STATE_TOPIC, command.by)
    ensure_unlocked(view, clusters.spec.mirror)
    partitions = _fenced(clusters, view, topics, command)
    try:
        found = clusters.source.transactions.on(partitions, command.by)
    except BrokerError as refused:
        raise named(refused, clusters.source, "DESCRIBE on TransactionalId *") from refused
    spec = clusters.spec
    return PlannedAbort(
        plan=AbortPlan(
            mirror=spec.mirror,
            mirror_id=spec.id,
            source_cluster_id=spec.source_cluster_id,
            transactions=tuple(each for each in found if each.may_be_aborted),
        ),
        ending=tuple(each for each in found if not each.may_be_aborted),
    )


def _fenced(
    clusters: ReturnedMirror, view: StateView, topics: Selection, command: CommandContext
) -> list[TopicPartition]:
    """The partitions that the mirror has failed over; no producer may write to them at the old source.

    Raises as `plan_abort`.
    """
    left = [topic for topic, _ in failed_over(view, clusters.spec.mirror, topics)]
    source = MirrorSnapshot.of(clusters.spec, clusters.source, clusters.destination).reachable_source()
    seen = see_returned(clusters.spec, source, left, view, command)
    stands = seen.fences.known()
    if unfenced := [each.topic for each in left if stands.get(each.topic) is not True]:
        raise SourceNotFenced(f"the source fence is not in force: {some(unfenced, ', ')}")
    return [at for each in left for at in each.all_partitions()]


def approve_abort(  # what an approver says, named
    plan_hash: str,
    topics: Selection,
    clusters: ReturnedMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
) -> Approval:
    """Put our name under the plan, if these are still the open transactions.

    Raises:
        AnotherAbort: they are others. NoOpenTransactions: there is none. NoApproverTopic. Misconfigured.
        AuthorizationFailed: we are no approver. What `plan_abort` raises.
    """
    plan = plan_abort(clusters, topics, command).plan
    if not plan.transactions:
        raise NoOpenTransactions(f"no transaction is open in topics that mirror {plan.mirror!r} has failed over")
    return approvals.approve(ABORTS, plan_hash, plan, terms, clusters, command)


def abort_at_once(
    plan_hash: str, topics: Selection, clusters: ReturnedMirror, command: CommandContext, *, terms: ApprovalTerms
) -> None:
    """Approve the plan that this command runs next, unless it is approved. Raises as `approve_at_once`."""
    typed = ("tanist", "failback", "abort-transactions", clusters.spec.mirror)
    where = (*typed, "--destination", clusters.destination.name)
    approve_at_once(
        lambda: permit(ABORTS, plan_hash, (), clusters, command),
        lambda: approve_abort(plan_hash, topics, clusters, command, terms=terms),
        (
            shlex.join((*where, "--approve", plan_hash, "--reason", terms.reason)),
            shlex.join((*where, "--plan", plan_hash)),
        ),
        command,
    )


def abort_transactions(
    plan_hash: str, clusters: ReturnedMirror, command: CommandContext, to: Reporting = UNREPORTED
) -> AbortOutcome:
    """Abort the approved transactions that are still open. The approval is looked at again under the lock.

    Raises:
        NotApproved, AbortRefused. MirrorLocked: another operation of this mirror is at work. AuthorizationFailed: a
        permission is missing. CouldNotTell, BrokerError: partial, run it again. What `plan_abort` raises.
    """
    mirror = clusters.spec.mirror

    def permitted() -> Permit[AbortPlan]:
        return permit(ABORTS, plan_hash, (), clusters, command)

    def check(view: StateView) -> object:
        return permitted(), failed_over(view, mirror, EVERY_TOPIC)

    with changing(clusters.destination, mirror, "failback abort-transactions", command, check, patient=True) as locked:
        given = permitted()
        run = _Aborting(given.approved, clusters, locked)
        RowRunner.of(Unrecorded.of(given.approval), to, command.clock).do(ABORT, run)
        return AbortOutcome(plan=plan_hash, aborted=tuple(run.aborted), still_open=run.plan.still_open(run.open()))


@dataclass(slots=True)
class _Aborting:
    """What each row is given."""

    plan: AbortPlan
    clusters: ReturnedMirror
    locked: LockedMirror | Rehearsal
    partitions: list[TopicPartition] = field(default_factory=list)
    aborted: list[ReturnedTransaction] = field(default_factory=list)

    def open(self) -> tuple[ReturnedTransaction, ...]:
        return self.clusters.source.transactions.on(self.partitions, self.locked.command.by)

    def find(self) -> None:
        self.partitions = _fenced(self.clusters, self.locked.view(), EVERY_TOPIC, self.locked.command)

    def abort(self) -> None:
        for each in self.plan.still_open(self.open()):
            if isinstance(self.locked, LockedMirror) and _like(each, self.open()):
                _abort(each, self.clusters, self.locked)
                self.aborted.append(each)


ABORT: Final[RunTable[_Aborting, _Aborting, None]] = RunTable(
    "an abort of transactions",
    (
        RunRow("find", "the source fence is in force in all topics that have failed over", _Aborting.find),
        RunRow("abort", "approved transactions that were open are aborted (the point of no return)", _Aborting.abort),
    ),
    no_return="abort",
)
"""Nothing of it can be put back."""


def _like(wanted: ReturnedTransaction, found: Iterable[ReturnedTransaction]) -> list[ReturnedTransaction]:
    return [each for each in found if wanted.is_same(each) and each.may_be_aborted]


def _abort(wanted: ReturnedTransaction, clusters: ReturnedMirror, locked: LockedMirror) -> None:
    right = f"WRITE on TransactionalId {wanted.transactional_id}" if wanted.transactional_id else "ALTER on Cluster"
    try:
        clusters.source.transactions.abort(wanted, locked.confirm_action())
    except BrokerError as refused:
        raise named(refused, clusters.source, right) from refused


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def transaction_item(each: ReturnedTransaction, now: EpochMs, *, aborted: bool = False) -> dict[str, Any]:
    """A transaction; its age in seconds."""
    return {
        "transactional_id": each.transactional_id or None,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "since_ms": each.since,
        "age_s": max(0, now - each.since) // 1000,
        "partitions": [{"topic": at.topic, "partition": at.partition} for at in each.partitions],
        "aborted": aborted,
    }
