"""The approval gate: a person's answer in Airflow becomes an approval in Kafka. The approval is the authority.

The gate's state in Airflow permits nothing: a gate that was marked successful by hand, or a forged XCom, writes no
approval, and the steps find none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.exceptions import HITLTimeoutError, HITLTriggerEventError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowException, TaskAwaitingInput

from tanist.airflow import variables
from tanist.airflow.markdown import adopted_page, plan_page
from tanist.airflow.params import FailoverParams, request_of
from tanist.airflow.tasks import TASK_SECONDS, at_work, translate_errors
from tanist.domain.errors import Misconfigured, RunUnderWay
from tanist.domain.failover.approving import NotApproved
from tanist.usecases.failover import planning
from tanist.usecases.failover.unfinished import unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

VALID_SECONDS: Final = 3600.0
"""How long an approval holds: as long as the gate waits for one."""

WITHDRAW_SECONDS: Final = 20.0


class NotAnswered(NotApproved):
    operator_action = "nothing was changed; trigger the failover again if it is still needed"


class SaidNo(NotAnswered):
    """An approver answered Reject: earlier approvals of that plan on which no failover has begun are withdrawn."""


class PlanGate(ApprovalOperator):
    """Shows the current plan, and writes the approval of exactly that plan once an approver answers Approve.

    If that failover is unfinished the gate does not ask: its approval is still valid.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            fail_on_reject=True,
            subject="Fail over {{ params.mirror }} to {{ params.destination }} ({{ params.mode }})?",
            response_timeout=timedelta(seconds=VALID_SECONDS),
            # It asks once. For seconds after the asking process has ended, a busy scheduler may take its end for a
            # crash, although somebody has answered since. With another try, a no lost like this would be asked again.
            retries=0,
            **options,
        )

    def execute(self, context: Context) -> Any:
        """Ask with the plan in the question; the plan shown is kept in the deferred task, where users cannot change it.

        Raises:
            AirflowFailException: the run may have asked before, or the plan is blocked.
        """
        params = FailoverParams.of(context)
        with at_work() as task, params.clusters(task) as clusters:
            if (held := params.to_adopt(clusters, task.context)) is not None:
                self.log.info(adopted_page(held))
                return {"plan": held.plan, "approver": held.approver, "approval": held.approval, "asked": False}
            must_be_the_first_time(context)
            self.assigned_users = [{"id": name, "name": name} for name in variables.approvers()]
            found = planning.plan(params.request, clusters, task.context)
            planning.must_not_be_blocked(found)
        tolerated = found.plan.intent.loss_tolerance
        shown = {"plan": found.plan.hash, "words": found.plan.canonical_plan, "loss_tolerance": tolerated}
        return self.ask(context, plan_page(found), shown)

    def ask(self, context: Context, page: str, shown: Mapping[str, Any]) -> Any:
        """Ask with `page`; `shown` is given to `execute_complete`."""
        self.body = page
        try:
            return super().execute(context)
        except TaskAwaitingInput as asking:
            raise TaskAwaitingInput(
                method_name=asking.method_name, kwargs={"shown": dict(shown)}, timeout=asking.timeout
            ) from None

    def execute_complete(self, context: Context, event: dict[str, Any], shown: dict[str, Any] | None = None) -> Any:
        """Write the approval with the name of the user who answered.

        Raises:
            AirflowFailException: no answer, a Reject, a user who is not an approver, or the plan has changed.
        """
        who, params = self.approver(context, event, shown), FailoverParams.of(context)
        logins = {params.destination: params.approver}
        with at_work(TASK_SECONDS, logins) as task, params.clusters(task) as clusters:
            if (held := unfinished(clusters, task.context)) is not None:
                raise RunUnderWay(
                    f"plan {held.plan} of {held.runner or 'nobody'} has begun since the question was asked"
                )
            approval = planning.approve(
                _text(shown, "plan"),
                params.request_from(shown),
                clusters,
                task.context,
                reason=f"asked for by {requester(context)} in Airflow, run {context['dag_run'].run_id}",
                valid_seconds=VALID_SECONDS,
                on_behalf_of=f"{who} via Airflow",
                request=request_of(context),
                shown=_text(shown, "words"),
            )
        self.log.info("%s approved plan %s: approval %s", approval.approver, approval.plan, approval.id)
        return {"plan": approval.plan, "approver": approval.approver, "approval": approval.id, "asked": True}

    def approver(self, context: Context, event: dict[str, Any], shown: Mapping[str, Any] | None) -> str:
        """The user who approved. A Reject of an approver also withdraws earlier approvals of the plan that was shown.

        Raises:
            AirflowFailException: no answer, a Reject, or a user who is not an approver.
        """
        with translate_errors():
            try:
                return self.answered(context, event)
            except SaidNo as no:
                plan = str((shown or {}).get("plan", ""))
                raise SaidNo(f"{no.reason}{self.take_back(context, plan, no.reason) if plan else ''}") from None

    def take_back(self, context: Context, plan: str, reason: str) -> str:
        """Withdraw earlier approvals of `plan`; returns the error as text, or an empty text."""
        params = FailoverParams.of(context)
        try:
            with (
                at_work(WITHDRAW_SECONDS, {params.destination: params.approver}) as task,
                params.clusters(task) as clusters,
            ):
                planning.withdraw(plan, clusters, task.context, reason=reason)
        except AirflowException as why:
            return not_taken_back(plan, why)
        return ""

    def answered(self, context: Context, event: dict[str, Any]) -> str:
        """The user who approved, as Airflow has recorded it; raises NotAnswered if there is no valid approval."""
        try:
            answer = super().execute_complete(context, event) if not _rejected(event) else None
        except HITLTimeoutError:
            raise NotAnswered(f"no answer within {self.response_timeout}") from None
        except (HITLTriggerEventError, ValueError) as why:
            raise NotAnswered(f"the answer cannot be used: {why}") from why
        user = event.get("responded_by_user") or {}
        who, name = str(user.get("id") or ""), str(user.get("name") or "")
        if answer is None:
            kind = SaidNo if who in variables.approvers() else NotAnswered
            raise kind(f"{name or who} answered {self.REJECT}")
        if event.get("timedout") or not who:
            raise NotAnswered("the answer is not from a user")
        if who not in variables.approvers():
            raise NotAnswered(f"{name or who} is not an approver (TANIST_APPROVERS={','.join(variables.approvers())})")
        if variables.four_eyes() and requester(context) in {who, name}:
            raise NotAnswered(f"{name or who} requested this run, so another user must approve it")
        return name or who


def must_be_the_first_time(context: Context) -> None:
    """Refuse a run that was cleared: Airflow does not record who cleared it, so four eyes cannot be checked."""
    if context["ti"].try_number > 1 or context["dag_run"].clear_number:
        raise NotAnswered("a run asks only once, and this run was cleared or lost its process: trigger a new run")


def requester(context: Context) -> str:
    """The Airflow user who asked for this run.

    Raises:
        Misconfigured: TANIST_FOUR_EYES is on, and no user triggered the run.
    """
    who = str(getattr(context["dag_run"], "triggering_user_name", None) or "")
    if not who and variables.four_eyes():
        raise Misconfigured(
            "the run was not triggered by a user, so it cannot be shown that requester and approver differ"
        )
    return who or "nobody"


def not_taken_back(plan: str, why: AirflowException) -> str:
    """What is added to the reason of a Reject."""
    return f"; an earlier approval of plan {plan} could not be withdrawn: {why}"


def _rejected(event: Mapping[str, Any]) -> bool:
    return "error" not in event and event.get("chosen_options") != [ApprovalOperator.APPROVE]


def _text(found: Mapping[str, Any] | None, key: str) -> str:
    return str((found or {}).get(key, ""))
