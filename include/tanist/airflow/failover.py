"""The tasks of a failover, each a call of the use cases that the command line calls, too.

No task relies on Airflow's state of another task: the approval decides what may be done, and both clusters decide each
time what is left to do.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tanist.airflow import connections
from tanist.airflow.gate import requester
from tanist.airflow.markdown import adopted_page, plan_page, status_page
from tanist.airflow.params import FailoverParams, Unfinished, request_of
from tanist.airflow.tasks import WHY, FailoverTask, at_work, busy_or_retriable, never, next_of, say_step
from tanist.airflow.verdict import REVERSE_AGAIN, UNKNOWN, VerdictSeen, green, seen_of_a_failback, verdict
from tanist.domain.approval.entries import NotApproved
from tanist.domain.errors import TanistError
from tanist.domain.names import mirror_name
from tanist.usecases import approvals
from tanist.usecases.failback.reverse import reverse_after
from tanist.usecases.failover import planning, unfinished_runs
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.abort import NothingToAbort, WasCleared, abort
from tanist.usecases.failover.items import outcome_item, run_item
from tanist.usecases.failover.planning import must_not_answer
from tanist.usecases.failover.route import ROUTE, STEP_IDS
from tanist.usecases.failover.run import run as run_plan
from tanist.usecases.failover.step import UNDO_SECONDS
from tanist.usecases.failover.tools import Tools
from tanist.usecases.failover.unfinished_runs import left_alone, unfinished
from tanist.usecases.items import status_item
from tanist.wiring.failover import Folder, is_process_dead, runner
from tanist.wiring.status import look

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.domain.records import FailoverRun
    from tanist.usecases.mirror import OpenMirror

STEPS: Final = tuple((step.id, step.title) for step in ROUTE)
OPEN_SECONDS: Final = 30.0
"""Timeout of `open_run`, because a user waits for it: a destination that has not answered by then is reported."""
STEP_SECONDS: Final = 600.0
OPEN, UNDO, PLAN, GATE, VALIDATE, REPORT = "open_run", "undo", "plan", "approve", "validate", "report"
REVERSE: Final = "reverse"
_HASH: Final = re.compile(r"[0-9a-f]{16}")
_FINE: Final = {"success", "running", "skipped", "upstream_failed"}
_LAST: Final = {VALIDATE, REPORT}
_NO_WORD: Final = " without an error message: its process ended, or Airflow lost the answer"
_MAY_HAVE_ASKED: Final = {"success", "failed", "skipped"}
"""States of a gate that may have asked for approval."""


def open_run() -> dict[str, Any]:
    """Check that this run may begin: the mirror exists, no other process changes it, and there are approvers.

    An unfinished failover must match the request, or be one that can be undone if that is requested. So must one that
    is done while the reversal after it is not.
    """
    context = get_current_context()
    params = FailoverParams.of(context)
    with at_work(OPEN_SECONDS, again=never) as task:
        clusters = params.clusters(task)
        folder = Folder(connections.evidence())
        folder.check()
        held = _to_undo(context, params, clusters, task) if params.undoes else _to_adopt(params, clusters, task)
        who: dict[str, Any] = {"asked by": "nobody: an unfinished failover is resumed"}
        if held is None or params.unfinished is Unfinished.ABORT:
            task.registry.cluster(params.approver)
            who = {"asked by": requester(context), "approvers": list(connections.approvers())}
    left = {"plan": held.plan, "approval": held.approval} if held else None
    place = {"mirror": params.mirror, "destination": params.destination, "evidence": str(folder.path)}
    return place | {"unfinished": left} | who


def _to_adopt(params: FailoverParams, clusters: OpenMirror, task: FailoverTask) -> FailoverRun | None:
    if (held := unfinished(clusters, task.context)) is None:
        return unfinished_runs.not_reversed(params.request, clusters, task.context)
    unfinished_runs.must_be_asked_for(held, params.request, clusters, task.context)
    return left_alone(clusters, replace(task.context, by=task.context.clock.deadline(2 * OPEN_SECONDS)))


def _to_undo(context: Context, params: FailoverParams, clusters: OpenMirror, task: FailoverTask) -> FailoverRun | None:
    """The run to undo. A run that was cleared undoes nothing: the unfinished failover may be its own."""
    if context["dag_run"].clear_number:
        raise WasCleared(
            f"`unfinished: {params.unfinished}` only undoes a failover that was unfinished when the run was triggered"
        )
    held = unfinished(clusters, task.context)
    if held is None and params.unfinished is Unfinished.ABORT_ONLY:
        raise NothingToAbort(f"mirror {params.mirror!r} has no unfinished failover")
    if held is not None:
        unfinished_runs.must_be_undoable(held)
    return held


def undo() -> dict[str, Any]:
    """Undo the failover that was unfinished when this run began, if that is requested; never a later one.

    Raises:
        AirflowSkipException: only the abort was requested.
    """
    context = get_current_context()
    params, held = FailoverParams.of(context), _found_unfinished(context)
    if not params.undoes or held is None:
        return {"undone": None}
    folder = Folder(connections.evidence() / held["plan"])
    by = context["dag_run"].triggering_user_name or "nobody"
    with at_work(2 * UNDO_SECONDS) as task:
        clusters = params.clusters(task)
        folder.check()
        tools = Tools(
            patience=params.patience, sink=folder, runner=runner(), is_process_dead=is_process_dead, report=say_step
        )
        why = f"asked for by {by} in Airflow, run {context['run_id']}"
        try:
            for topic in abort(clusters, tools, task.context, why, approval=held["approval"]).pending:
                say_step("undo", f"the source fence of {topic} could not be lifted; a fetcher keeps retrying")
        except NothingToAbort as already:
            say_step("undo", already.reason)
    if params.unfinished is Unfinished.ABORT_ONLY:
        raise AirflowSkipException("only the abort was requested")
    return {"undone": held["plan"]}


def _found_unfinished(context: Context) -> Mapping[str, str] | None:
    """The failover that was unfinished when this run began."""
    left = context["ti"].xcom_pull(task_ids=OPEN)
    return left.get("unfinished") if isinstance(left, dict) else None


def observe() -> dict[str, Any]:
    """The output of `tanist status` for the mirror, for information only: an error does not stop the run."""
    params = FailoverParams.of(get_current_context())
    with at_work() as task:
        try:
            there = task.registry.connect(params.destination)
            (seen,) = look(task.registry, there, mirror_name(params.mirror), task.context)
        except TanistError as why:
            say_step("status", f"UNKNOWN: {why}")
            return {"mirror": params.mirror, "unknown": str(why)}
    print(status_page(seen.status))  # noqa: T201  # the task's log
    return status_item(seen.status)


def plan() -> dict[str, Any]:
    """The current plan; or the plan of an unfinished run, which this one resumes."""
    params = FailoverParams.of(get_current_context())
    with at_work() as task:
        clusters = params.clusters(task)
        if (held := params.to_adopt(clusters, task.context)) is not None:
            page, found = adopted_page(held), held.plan
        else:
            planned = planning.plan(params.request, clusters, task.context)
            page, found = plan_page(planned), planned.plan.hash
            print(page)  # noqa: T201  # also where it is blocked
            planning.must_not_be_blocked(planned)
            if not params.although_it_answers:
                must_not_answer(planned.plan.intent, planned.facts, clusters.destination.name)
    return {"plan": found, "page": page}


def step(name: str) -> dict[str, Any]:
    """Run the approved plan up to the step `name`. A step that is done already is skipped.

    Raises:
        AirflowException: retriable; the next attempt resumes where this one ended.
        AirflowFailException: it would be refused again.
    """
    context = get_current_context()
    params, request = FailoverParams.of(context), request_of(context)
    seconds = STEP_SECONDS + params.patience.proof + params.patience.drain + params.patience.budget
    with at_work(seconds, again=busy_or_retriable) as task:
        clusters = params.clusters(task)
        if (found := _planned(context)) is None:
            raise NotApproved("this run has no plan")
        unfinished_runs.must_be_ours(found, params.request, request, clusters, task.context)
        folder = Folder(connections.evidence() / found)
        folder.check()
        tools = Tools(
            patience=params.patience, sink=folder, runner=runner(), is_process_dead=is_process_dead, report=say_step
        )
        outcome = run_plan(
            found,
            clusters,
            tools,
            task.context,
            until=name,
            request=request,
            although_it_answers=True,  # `plan` has asked, and who approved has seen whether it answers
        )
    item = outcome_item(outcome, str(folder.path))
    for partition, why in item["may_be_reused"].items():
        say_step(name, f"new records of {partition} may get offsets that the old source has used", why)
    for partition, why in item["reserve_estimated"].items():
        say_step(name, f"reserve of {partition}", why)
    return item | {"did_again": _done_again(name, outcome.did)}


def _done_again(name: str, did: tuple[str, ...]) -> list[str]:
    """The other steps that the task of step `name` did, because their postconditions did not hold (any more)."""
    others = sorted(set(did) - {name}, key=STEP_IDS.index)
    for each in others:
        say_step(each, f"was done again by task {name}")
    return others


def reverse() -> dict[str, Any]:
    """If that is requested, the last step: reverse the mirror by the approval of the failover; else nothing."""
    context = get_current_context()
    params, found = FailoverParams.of(context), _planned(context)
    if not params.request.reverse or found is None:
        return {"reversed": False}
    with at_work(STEP_SECONDS, again=busy_or_retriable) as task:
        folder = Folder(connections.evidence() / found)
        folder.check()
        clusters = task.registry.open_mirror(*params.place(task), task.context)
        done = reverse_after(found, clusters, folder, task.context)
    return {"reversed": done is not None}


def report() -> dict[str, Any]:
    """The result of the run, read from the destination, not from Airflow. Does not wait for the validation.

    An approval of this run on which no failover has begun is withdrawn.

    Raises:
        AirflowFailException: the request is not done, so the run must fail.
        AirflowException: the result is unknown.
    """
    context = get_current_context()
    states = _states(context)
    failed, only = _failed(context, states), context["params"].get("unfinished") == Unfinished.ABORT_ONLY
    plan = (_found_unfinished(context) or {}).get("plan") if only else _planned(context)
    record, error = None, None
    try:
        record = _record(FailoverParams.of(context), plan) if plan else None
        undone = (context["ti"].xcom_pull(task_ids=UNDO) or {}).get("undone")
        left = failed.get(REVERSE, "") if context["params"].get("reverse") else ""
        seen = VerdictSeen(
            record=record,
            failed=failed,
            undone=undone,
            abort_only=only,
            not_reversed=left,
            destination=str(context["params"]["destination"]),
        )
        if REVERSE_AGAIN in states:
            seen = seen_of_a_failback(seen, states, context["params"]["destination"])
        said = verdict(seen)
    except AirflowException as why:
        said, error = f"{UNKNOWN}{why}", type(why)
    told_later = run_item(record, None, str(connections.evidence() / record.plan)) if record else {}
    found = {"verdict": said, "failed": failed} | told_later
    for name, value in found.items():
        print(f"{name}: {value}")  # noqa: T201
    context["ti"].xcom_push(key="return_value", value=found)
    if error is None and plan and not green(said) and states.get(GATE) in _MAY_HAVE_ASKED:
        _take_back(context, plan, record)
    found["next"] = _advised(context["params"])
    print(f"next: {found['next']}")  # noqa: T201
    context["ti"].xcom_push(key="return_value", value=found)
    if not green(said):
        raise (error or AirflowFailException)(said)
    return found


def _advised(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is next. A failback begins with the mirror at the present primary, and ends with it there."""
    places = [str(params[name]) for name in ("primary", "destination") if params.get(name)]
    return next(filter(None, next_of(*((place, str(params["mirror"])) for place in places))), [])


def _planned(context: Context) -> str | None:
    """The plan of the gate; if the gate has no result, the plan of the task `plan`."""
    for task in (GATE, PLAN):
        left = context["ti"].xcom_pull(task_ids=task)
        found = left.get("plan") if isinstance(left, dict) else None
        if isinstance(found, str) and _HASH.fullmatch(found):
            return found
    return None


def _record(params: FailoverParams, plan: str) -> FailoverRun | None:
    with at_work(OPEN_SECONDS) as task:
        clusters = params.clusters(task, follow=True)
        return statuses.record(clusters, plan, task.context)


def _take_back(context: Context, plan: str, record: FailoverRun | None) -> None:
    """Withdraw the approval of this run. An error is only logged: no other run could use the approval."""
    params, request = FailoverParams.of(context), request_of(context)
    try:
        with at_work(OPEN_SECONDS, {params.destination: params.approver}) as task:
            clusters = params.clusters(task)
            if record is None or not unfinished_runs.begun_on(record, request, clusters, task.context):
                approvals.withdraw(plan, clusters, task.context, request=request, reason="the run of it has ended")
    except AirflowException as why:
        say_step("report", f"an approval of this run, if there is one, could not be withdrawn: {why}")


def _states(context: Context) -> Mapping[str, str]:
    run = context["run_id"]
    found = context["ti"].get_task_states(dag_id=context["dag"].dag_id, run_ids=[run])[run]
    return {task: str(state) for task, state in found.items()}


def _failed(context: Context, states: Mapping[str, str]) -> dict[str, str]:
    bad = {task: state for task, state in states.items() if task not in _LAST and state not in _FINE}
    return {
        task: context["ti"].xcom_pull(task_ids=task, key=WHY) or f"{state}{_NO_WORD}" for task, state in bad.items()
    }
