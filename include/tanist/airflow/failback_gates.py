"""The gates of a failback: before the reversal, before the switch, and before the reversal after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from tanist.airflow.failback import FailbackParams, switch_done
from tanist.airflow.gate import (
    WITHDRAW_SECONDS,
    NotAnswered,
    PlanGate,
    approved_item,
    must_not_be_cleared,
    not_taken_back,
    terms_of,
)
from tanist.airflow.markdown import reversal_page
from tanist.airflow.tasks import TASK_SECONDS, at_work, never, translate_errors
from tanist.usecases import approvals
from tanist.usecases.approvals import earlier_answer
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reverse import by_failover

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.airflow.failback import ReversalLeg
    from tanist.airflow.tasks import FailoverTask
    from tanist.domain.approval.entries import Entry


class SwitchGate(PlanGate):
    """Asks for the approval of the switch, which is a planned failover; does not ask if it is done."""

    def execute(self, context: Context) -> Any:
        """Raises as that of `PlanGate`."""
        return switch_done(context) or super().execute(context)


class LegGate(PlanGate):
    """A gate whose approval is written at the mirror's destination of that time."""

    def asks(self, context: Context) -> tuple[ReversalLeg, str]:
        """Where the mirror is, and the request that the approval answers. Raises as `FailbackParams.of`."""
        raise NotImplementedError

    def find_answer(self, context: Context, task: FailoverTask, seconds: float) -> Entry | None:
        """As that of `PlanGate`, at the mirror's destination of that time."""
        leg, request = self.asks(context)
        if (clusters := leg.clusters(task)) is None:
            return None
        return earlier_answer(clusters.destination, clusters.spec.mirror, request, task.context, seconds)

    def take_back(self, context: Context, plan: str, reason: str) -> str:
        """As that of `PlanGate`, at the mirror's destination of that time."""
        leg, asked = self.asks(context)
        try:
            with at_work(WITHDRAW_SECONDS, {leg.home: f"{leg.home}_approver"}, again=never) as task:
                if (clusters := leg.clusters(task)) is not None:
                    for request in (asked, ""):
                        approvals.withdraw(plan, clusters, task.context, request=request, reason=reason)
        except AirflowException as why:
            return not_taken_back(plan, why)
        return ""


class ReversalGate(LegGate):
    """Shows the plan of a reversal, and writes the approval of exactly that plan once an approver answers Approve.

    If the mirror is reversed already, an approved reversal is unfinished, or the failover before it was approved with
    it, the gate does not ask. It fails, and names
    what speaks against it, if the mirror cannot be reversed: such as a tail that nobody has decided about. `again`: the
    reversal that follows the failback.
    """

    def __init__(self, *, again: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.again = again
        self.subject = "Copy {{ params.mirror }} back to its old source?"

    def leg(self, context: Context) -> ReversalLeg:
        """The reversal that this gate asks for. Raises as `FailbackParams.of`."""
        params = FailbackParams.of(context)
        return params.again if self.again else params.back

    def asks(self, context: Context) -> tuple[ReversalLeg, str]:
        """As that of `LegGate`."""
        leg = self.leg(context)
        return leg, str(leg.request.answers)

    def execute(self, context: Context) -> Any:
        """Ask with the plan in the question. Raises as that of `PlanGate`."""
        leg = self.leg(context)
        if not self.again and (done := switch_done(context)) is not None:
            return done
        with at_work(again=never) as task:
            if (clusters := leg.to_reverse(task)) is None:
                return {"asked": False}
            if (approved := by_failover(leg.request, clusters, task.context)) is not None:
                self.log.info("the failover %s was approved with this reversal, which is not done", approved.failover)
                return {"plan": approved.failover, "asked": False}
            must_not_be_cleared(context)
        if (approval := self.approved_before(context)) is not None:
            return approved_item(approval)
        with at_work(again=never) as task:
            if (clusters := leg.clusters(task)) is None:
                return {"asked": False}
            found = reversal.plan(leg.request, clusters, task.context)
        return self.ask(context, reversal_page(found), {"plan": found.plan.hash})

    def first_shown(self, context: Context, plan: str) -> Mapping[str, Any]:  # noqa: ARG002 -- as that of `PlanGate`
        """Raises AirflowFailException: plans of reversals are not kept, so only the same one can be shown again."""
        with translate_errors(never):
            raise NotAnswered(f"the first answer was lost, and the clusters make another plan than {plan} by now")

    def execute_complete(self, context: Context, event: dict[str, Any], shown: dict[str, Any] | None = None) -> Any:
        """Write the approval with the name of the user who answered. Raises as that of `PlanGate`."""
        who, leg = self.approver(context, event, shown), self.leg(context)
        with at_work(TASK_SECONDS, {leg.home: f"{leg.home}_approver"}, again=never) as task:
            if (clusters := leg.clusters(task)) is None:
                raise NotAnswered("the mirror was reversed since the question was asked")
            approval = reversal.approve(
                str((shown or {}).get("plan", "")),
                leg.request,
                clusters,
                task.context,
                terms=terms_of(context, who),
            )
        return self.stored(approval)
