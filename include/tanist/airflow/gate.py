"""The approval gate: a person's answer in Airflow becomes an approval in Kafka. The approval is the authority.

The gate's state in Airflow permits nothing: a gate that was marked successful by hand, or a forged XCom, writes no
approval, and the steps find none.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.exceptions import HITLTimeoutError, HITLTriggerEventError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.api.datamodels._generated import HITLUser
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, TaskAwaitingInput
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload
from airflow.sdk.timezone import utcnow

from tanist.airflow import connections
from tanist.airflow.markdown import adopted_page, plan_page
from tanist.airflow.params import FailoverParams, request_of
from tanist.airflow.tasks import TASK_SECONDS, at_work, never, translate_errors
from tanist.domain.approval.entries import NotApproved, Withdrawal
from tanist.domain.errors import Misconfigured, Refused, RunUnderWay
from tanist.usecases import approvals
from tanist.usecases.approvals import ApprovalTerms, earlier_answer
from tanist.usecases.failover import planning
from tanist.usecases.failover.approval_gate import kept_words, must_be_covered
from tanist.usecases.failover.unfinished_runs import unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.airflow.tasks import FailoverTask
    from tanist.domain.approval.entries import Approval, Entry

VALID_SECONDS: Final = 3600.0
"""How long an approval holds: as long as the gate waits for one."""

WITHDRAW_SECONDS: Final = 20.0
RETRIES: Final = 3
"""Only for an answer that Airflow loses, or a process that is killed: whatever Tanist says fails the task for good."""
TWICE: Final = "If you see this question twice, your first answer was lost: answer again."
_PLAN: Final = re.compile(r"Plan `([0-9a-f]{16})`")
_KILL_SECONDS: Final = 5.0
"""Between SIGTERM and SIGKILL of a supervisor."""


class NotAnswered(NotApproved):
    operator_action = "nothing was changed; trigger the failover again if it is still needed"


class SaidNo(NotAnswered):
    """An approver answered Reject: earlier approvals of that plan on which no failover has begun are withdrawn."""


class PlanGate(ApprovalOperator):
    """Shows the current plan, and writes the approval of exactly that plan once an approver answers Approve.

    If that failover is unfinished the gate does not ask: its approval is still valid.

    Airflow may lose an answer: a scheduler that reads the end of the asking process late takes it for a crash of the
    process that resumes (apache/airflow#67287, #72716, #71580). So a further try looks for the answer in Kafka first,
    and asks the first question again, word for word, only if there is none.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            fail_on_reject=True,
            subject="Fail over {{ params.mirror }} to {{ params.destination }} ({{ params.mode }})?",
            response_timeout=timedelta(seconds=VALID_SECONDS),
            retries=RETRIES,
            **options,
        )

    def execute(self, context: Context) -> Any:
        """Ask with the plan in the question; the plan shown is kept in the deferred task, where users cannot change it.

        Raises:
            AirflowFailException: the run was cleared, an approver has said no to it, or the plan is blocked.
        """
        params = FailoverParams.of(context)
        with at_work(again=never) as task:
            clusters = params.clusters(task)
            if (held := params.to_adopt(clusters, task.context)) is not None:
                self.log.info(adopted_page(held))
                return {"plan": held.plan, "approver": held.approver, "approval": held.approval, "asked": False}
            must_not_be_cleared(context)
        if (approval := self.approved_before(context)) is not None:
            return approved_item(approval)
        with at_work(again=never) as task:
            clusters = params.clusters(task)
            found = planning.plan_and_keep(params.request, clusters, task.context)
            planning.must_not_be_blocked(found)
        return self.ask(context, plan_page(found), {"plan": found.plan.hash, "words": found.plan.canonical_plan})

    def approved_before(self, context: Context) -> Approval | None:
        """The approval that an earlier try has written, or that its process still writes; None: there is none.

        Raises:
            AirflowFailException: an approver has said no to this run, or it cannot be known.
        """
        if context["ti"].try_number == 1:
            return None
        seconds = old_process_seconds()
        self.log.info("an earlier try may have been answered: looking for its approval for %.0f s", seconds)
        with at_work(seconds + TASK_SECONDS, again=never) as task:
            found = self.find_answer(context, task, seconds)
            if isinstance(found, Withdrawal):
                raise NotAnswered(f"an approver has answered before: {found.reason}")
        return found

    def find_answer(self, context: Context, task: FailoverTask, seconds: float) -> Entry | None:
        """What answers the request of this gate, on record or within `seconds`."""
        params = FailoverParams.of(context)
        clusters = params.clusters(task)
        mirror = clusters.spec.mirror
        return earlier_answer(clusters.destination, mirror, request_of(context), task.context, seconds)

    def ask(self, context: Context, page: str, shown: Mapping[str, Any]) -> Any:
        """Ask with `page`; `shown` is given to `execute_complete`. What was asked before is asked again instead.

        Raises:
            AirflowFailException: what was asked before cannot be asked any more.
        """
        with translate_errors(never):
            self.assigned_users = [{"id": name, "name": name} for name in connections.approvers()]
        self.body = f"{page}\n\n{TWICE}"
        asked = _PLAN.match(self._put_question(context))
        first = asked[1] if asked else ""
        if first != shown["plan"]:
            shown = self.first_shown(context, first)
        timeout = self.response_timeout
        self.hitl_summary_extra["timeout_datetime"] = (utcnow() + timeout).isoformat() if timeout else None
        for notifier in self.notifiers:
            notifier(context)
        raise TaskAwaitingInput(method_name="execute_complete", kwargs={"shown": dict(shown)}, timeout=timeout)

    def _put_question(self, context: Context) -> str:
        """Store the question, once for all tries: what Airflow shows is the text of the first one, which is returned.

        Unlike an XCom or a task's stored state, users cannot change it.
        """
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS  # noqa: PLC0415 -- exists in a task only

        users = [HITLUser(id=user["id"], name=user["name"]) for user in self.assigned_users or []]
        row: Any = SUPERVISOR_COMMS.send(
            msg=CreateHITLDetailPayload(
                ti_id=context["ti"].id,
                options=self.options,
                subject=self.subject,
                body=self.body,
                params=self.serialized_params,
                assigned_users=users,
            )
        )
        return str(row.body)

    def first_shown(self, context: Context, plan: str) -> Mapping[str, Any]:
        """What `ask` needs to ask for `plan` again, as it was kept when it was first shown.

        Raises:
            AirflowFailException: it is not kept, or its words do not cover what is so now.
        """
        params = FailoverParams.of(context)
        with at_work(again=never) as task:
            clusters = params.clusters(task)
            if (words := kept_words(plan, clusters, task.context)) is None:
                raise NotAnswered(
                    f"the first answer was lost, and plan {plan} is not kept, so it cannot be shown again"
                )
            try:
                must_be_covered(plan, words, clusters, task.context)
            except Refused as why:
                raise NotAnswered(f"the first answer was lost, and {why.reason}") from why
        return {"plan": plan, "words": words}

    def execute_complete(self, context: Context, event: dict[str, Any], shown: dict[str, Any] | None = None) -> Any:
        """Write the approval with the name of the user who answered.

        Raises:
            AirflowFailException: no answer, a Reject, a user who is not an approver, or the plan does not cover what
                is so now.
        """
        who, params = self.approver(context, event, shown), FailoverParams.of(context)
        logins = {params.destination: params.approver}
        with at_work(TASK_SECONDS, logins, again=never) as task:
            clusters = params.clusters(task)
            if (held := unfinished(clusters, task.context)) is not None:
                raise RunUnderWay(
                    f"plan {held.plan} of {held.runner or 'nobody'} has begun since the question was asked"
                )
            approval = planning.approve(
                _text(shown, "plan"),
                None,
                clusters,
                task.context,
                terms=terms_of(context, who),
                request=request_of(context),
                shown=_text(shown, "words"),
            )
        return self.stored(approval)

    def stored(self, approval: Approval) -> dict[str, Any]:
        """What the gate returns of an approval that was written; the log names it."""
        self.log.info("%s approved plan %s: approval %s", approval.approver, approval.plan, approval.id)
        if approval.unread:
            self.log.warning("approval %s is written, but could not be read back: %s", approval.id, approval.unread)
        return approved_item(approval)

    def approver(self, context: Context, event: dict[str, Any], shown: Mapping[str, Any] | None) -> str:
        """The user who approved. A Reject of an approver ends this run for good, and takes back earlier approvals.

        Raises:
            AirflowFailException: no answer, a Reject, or a user who is not an approver.
        """
        with translate_errors(never):
            try:
                return self.answered(context, event)
            except SaidNo as no:
                plan = str((shown or {}).get("plan", ""))
                raise SaidNo(f"{no.reason}{self.take_back(context, plan, no.reason) if plan else ''}") from None

    def take_back(self, context: Context, plan: str, reason: str) -> str:
        """Withdraw whatever answers this run, and what commands have approved of `plan`; returns the error, or ''."""
        params = FailoverParams.of(context)
        try:
            with at_work(WITHDRAW_SECONDS, {params.destination: params.approver}, again=never) as task:
                clusters = params.clusters(task)
                for request in (request_of(context), ""):
                    approvals.withdraw(plan, clusters, task.context, request=request, reason=reason)
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
            kind = SaidNo if who in connections.approvers() else NotAnswered
            raise kind(f"{name or who} answered {self.REJECT}")
        if event.get("timedout") or not who:
            raise NotAnswered("the answer is not from a user")
        if who not in connections.approvers():
            raise NotAnswered(
                f"{name or who} is not an approver (TANIST_APPROVERS={','.join(connections.approvers())})"
            )
        if connections.four_eyes() and requester(context) in {who, name}:
            raise NotAnswered(f"{name or who} requested this run, so another user must approve it")
        return name or who


def must_not_be_cleared(context: Context) -> None:
    """Refuse a run that was cleared: Airflow does not record who cleared it, so four eyes cannot be checked."""
    if context["dag_run"].clear_number or context["ti"].max_tries > RETRIES:
        raise NotAnswered("this run was cleared, and whoever did that may be another user than who has requested it")


def old_process_seconds() -> float:
    """How long the process of an earlier try may go on after its task was given up.

    Its supervisor hears of that from its next heartbeat, or ends it once too many heartbeats had no answer; a process
    that does not obey is killed after some seconds. That Airflow's client sends a heartbeat up to five times
    (`execution_api_retries`) is left out: a further try was started through the API that answers them. What a process
    writes even later is found when the question is answered again.
    """
    every = float(conf.getfloat("workers", "min_heartbeat_interval"))
    answer = float(conf.getfloat("workers", "execution_api_timeout"))
    return (every + answer) * (1 + int(conf.getint("workers", "max_failed_heartbeats"))) + _KILL_SECONDS


def approved_item(approval: Approval) -> dict[str, Any]:
    """What a gate returns that has asked."""
    return {"plan": approval.plan, "approver": approval.approver, "approval": approval.id, "asked": True}


def terms_of(context: Context, who: str) -> ApprovalTerms:
    """What is stored with an approval that `who` has given in Airflow."""
    reason = f"asked for by {requester(context)} in Airflow, run {context['dag_run'].run_id}"
    return ApprovalTerms.of(reason, VALID_SECONDS, f"{who} via Airflow")


def requester(context: Context) -> str:
    """The Airflow user who asked for this run.

    Raises:
        Misconfigured: TANIST_FOUR_EYES is on, and no user triggered the run.
    """
    who = str(getattr(context["dag_run"], "triggering_user_name", None) or "")
    if not who and connections.four_eyes():
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
