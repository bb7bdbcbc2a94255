"""The gate of the approval: on which one a run is, and whether the facts still are what was approved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.failover.approving import (
    EXPIRED,
    ApprovalUsed,
    NoApproverTopic,
    NotApproved,
    NotPermitted,
    approvals,
    recorded,
)
from tanist.domain.failover.commands import approve_command
from tanist.domain.failover.objections import objections, only_for_now
from tanist.domain.failover.plan import ApprovedPlan, past_return
from tanist.domain.records import RunStatus
from tanist.usecases.approvals import Permit, PlanKind, find_approval, read_plan
from tanist.usecases.failover.kept import NotToldNow, kept_words
from tanist.usecases.failover.route import STEP_IDS

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


class ApprovalVoid(NotPermitted):
    name = "APPROVAL_VOID"
    operator_action = (
        "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again (with --mode unplanned "
        "where the source does not answer)"
    )


def _fits(plan: ApprovedPlan, spec: MirrorSpec) -> bool:
    """Neither an older plan nor the record of an older mirror has an id."""
    intent, pinned = plan.intent, (spec.mirror, spec.source_cluster_id, spec.destination_cluster_id)
    same = intent.mirror_id == spec.id or not (intent.mirror_id or spec.mirror_id)
    return same and (intent.mirror, intent.source_cluster_id, intent.destination_cluster_id) == pinned


FAILOVERS: Final = PlanKind(
    read=ApprovedPlan.read,
    unreadable="cannot be read by this version",
    fits=_fits,
    unfit="the plan is for an earlier mirror of this name, or for other clusters than the mirror has now",
    not_approved=NotApproved,
    not_permitted=NotPermitted,
    command="tanist failover approve {mirror} {plan} --destination {destination} --reason ...",
)


@dataclass(frozen=True, slots=True)
class ApprovalGate:
    """Of the plan with the hash `plan`. `request`: what its approval must answer (`choose`); None: a command's own."""

    plan: str
    request: str | None
    clusters: OpenMirror
    command: CommandContext

    def permit(self, view: StateView) -> Permit[ApprovedPlan]:
        """The approval of the run that is to be continued, or a fresh one; of this very mirror. Asks no cluster.

        Raises:
            NotApproved, ApprovalUsed, NotPermitted.
        """
        approval = self._approval(view)
        return Permit(approval, read_plan(FAILOVERS, approval, self.clusters))

    def is_approved_anew(self, view: StateView) -> bool:
        """Whether there is an approval that no run has used yet."""
        try:
            self._approval(view)
        except (ApprovalUsed, NotApproved, NoApproverTopic):  # the last: at a new destination since a reversal
            return False
        return True

    def must_permit(self, permit: Permit[ApprovedPlan], facts: Facts) -> None:
        """Behind the point of no return nothing is asked any more.

        Raises:
            NotPermitted: it does not permit what `facts` are now; ApprovalVoid, where the run has begun.
            NotToldNow: a cluster does not tell for the moment.
        """
        if past_return(facts):
            return
        reported = self.clusters.destination.approvals.brokers_time(self.command.by)
        now = self.command.clock.now()
        if reasons := objections(permit.approval, permit.approved, facts, STEP_IDS, now, reported):
            said = "; ".join(f"{reason.name}: {reason.detail}" for reason in reasons)
            if only_for_now(reasons):
                raise NotToldNow(said)
            begun = facts.run is not None and facts.run.status is RunStatus.RUNNING
            if not begun and self.request is None and all(reason.name == EXPIRED for reason in reasons):
                said = f"{said}: {self._approve_command(permit)}"
            kind = ApprovalVoid if begun else NotPermitted
            raise kind(said)

    def _approve_command(self, permit: Permit[ApprovedPlan]) -> str:
        kept = kept_words(self.plan, self.clusters, self.command) is not None
        return approve_command(permit.approved.intent, self.plan, self.clusters.destination.name, kept=kept)

    def _approval(self, view: StateView) -> Approval:
        mirror = self.clusters.spec.mirror
        held = view.failover(mirror, self.plan)
        if held is not None and held.status is RunStatus.RUNNING and held.no_return:
            return recorded(held)
        if held is None or held.status is not RunStatus.RUNNING:
            runs = view.failovers(mirror)
            return find_approval(FAILOVERS, self.plan, runs, self.clusters, self.command, request=self.request)
        entries = self.clusters.destination.approvals.all(self.command.by)
        ours = (each for each in approvals(entries) if (each.mirror, each.plan) == (mirror, self.plan) and each.genuine)
        own = [each for each in ours if each.id == held.approval]
        if not own:
            raise NotApproved(f"approval {held.approval} of run {self.plan} no longer exists")
        return own[0]
