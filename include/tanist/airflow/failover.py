"""The tasks of a failover, each of them one call of the use cases that the command line has, too.

No task trusts what Airflow says of another: what may be done is decided by the approval, and what is left to do by
both clusters, each time anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException

from tanist.airflow import variables
from tanist.airflow.gate import requester
from tanist.airflow.markdown import adopted_page, plan_page, status_page
from tanist.airflow.tasks import WHY, Task, at_work
from tanist.airflow.wish import Wish
from tanist.composition.failover import Folder, gone, runner
from tanist.composition.status import look
from tanist.domain.errors import RunUnderWay, TanistError
from tanist.domain.failover.approving import NotApproved
from tanist.domain.failover.plan import ROUTE
from tanist.domain.names import mirror_name
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover import planning
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.items import outcome_item, run_item
from tanist.usecases.failover.run import run as run_plan
from tanist.usecases.failover.unfinished import left_alone, unfinished
from tanist.usecases.failover.work import Tools
from tanist.usecases.items import status_item

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS: Final = tuple((step.id, step.title) for step in ROUTE)
STEP_SECONDS: Final = 600.0
PLAN, GATE, VALIDATE, REPORT = "plan", "approve", "validate", "report"
_HASH: Final = re.compile(r"[0-9a-f]{16}")
_FINE: Final = {"success", "running", "skipped", "upstream_failed"}
_LAST: Final = {VALIDATE, REPORT}
_NO_WORD: Final = " without a word: its process was lost, or Airflow lost the answer to it"


def open_run() -> dict[str, Any]:
    """Whether this run may begin at all: the mirror is there, nobody is at work on it, and somebody may approve."""
    context = get_current_context()
    wish = Wish.of(context)
    with at_work() as task, wish.clusters(task) as clusters:
        folder = Folder(variables.evidence())
        folder.check()
        held = left_alone(clusters, task.run)
        if held is None:
            task.world.cluster(wish.approver)
            who = {"asked by": requester(context), "approvers": list(variables.approvers())}
        else:
            who = {"asked by": "nobody: an unfinished run is finished"}
    return {"mirror": wish.mirror, "destination": wish.destination, "evidence": str(folder.path)} | who


def observe() -> dict[str, Any]:
    """What `tanist status` says of the mirror now. It is there to be read: what it cannot tell stops nothing."""
    wish = Wish.of(get_current_context())
    with at_work() as task:
        try:
            there = task.world.connect(wish.destination)
            (seen,) = look(task.world, there, mirror_name(wish.mirror), task.run)
        except TanistError as why:
            _say("status", f"UNKNOWN: {why}")
            return {"mirror": wish.mirror, "unknown": str(why)}
    print(status_page(seen.status))  # noqa: T201  # the task's log
    return status_item(seen.status)


def plan() -> dict[str, Any]:
    """The plan as it is now; or the one of an unfinished run, which this one goes on with."""
    wish = Wish.of(get_current_context())
    with at_work() as task, wish.clusters(task) as clusters:
        if (held := unfinished(clusters, task.run)) is not None:
            page, found = adopted_page(held), held.plan
        else:
            planned = planning.plan(wish.asked, clusters, task.run)
            page, found = plan_page(planned), planned.plan.hash
            print(page)  # noqa: T201  # also where it is blocked
            planning.must_not_be_blocked(planned)
    return {"plan": found, "page": page}


def step(name: str) -> dict[str, Any]:
    """Run the approved plan as far as the step `name`. Done already: nothing happens.

    Raises:
        AirflowException: worth another try, which goes on where this one ended.
        AirflowFailException: it would be refused again.
    """
    context = get_current_context()
    wish = Wish.of(context)
    with at_work(STEP_SECONDS) as task, wish.clusters(task) as clusters:
        found = _plan_of(context)
        folder = Folder(variables.evidence() / found)
        folder.check()
        tools = Tools(patience=wish.patience, sink=folder, runner=runner(), gone=gone, tell=_say)
        try:
            outcome = run_plan(found, clusters, tools, task.run, until=name)
        except RunUnderWay as busy:  # what this task was before it was killed may still be alive for a moment
            raise AirflowException(str(busy)) from busy
    return outcome_item(outcome, str(folder.path))


def report() -> dict[str, Any]:
    """What came of it, whatever came of it; read from the destination, not from Airflow. Waits for no validation."""
    context = get_current_context()
    failed = _failed(context)
    wish = Wish.of(context)
    try:
        found = _plan_of(context)
        with at_work() as task:
            record = _record(task, wish, found)
    except (AirflowException, TanistError) as why:
        found, record, verdict = "", None, f"UNKNOWN: {why}"
    else:
        verdict = _verdict(record, failed)
    told_later = run_item(record, None, str(variables.evidence() / found)) if record else {}
    for name, value in {"verdict": verdict, "not done": failed or "nothing", **told_later}.items():
        print(f"{name}: {value}")  # noqa: T201
    return {"verdict": verdict, "failed": failed} | told_later


def _plan_of(context: Mapping[str, Any]) -> str:
    """The plan that the gate was about; without any answer of the gate the one that was made.

    Raises:
        NotApproved: neither is the hash of a plan.
    """
    for task in (GATE, PLAN):
        left = context["ti"].xcom_pull(task_ids=task)
        found = left.get("plan") if isinstance(left, dict) else None
        if isinstance(found, str) and _HASH.fullmatch(found):
            return found
    raise NotApproved("this run has no plan")


def _record(task: Task, wish: Wish, plan: str) -> FailoverRun | None:
    with wish.clusters(task) as clusters:
        return statuses.record(clusters, plan, task.run)


def _failed(context: Mapping[str, Any]) -> dict[str, str]:
    run, dag = context["run_id"], context["dag"].dag_id
    states = context["ti"].get_task_states(dag_id=dag, run_ids=[run])[run]
    bad = {task: str(state) for task, state in states.items() if task not in _LAST and str(state) not in _FINE}
    return {
        task: context["ti"].xcom_pull(task_ids=task, key=WHY) or f"{state}{_NO_WORD}" for task, state in bad.items()
    }


def _verdict(record: FailoverRun | None, failed: Mapping[str, str]) -> str:
    if record is None:
        return "NOT STARTED: nothing was changed"
    match record.status:
        case RunStatus.DONE:
            return "DONE" if not failed else f"DONE, but not {', '.join(failed)}"
        case RunStatus.ABORTED:
            return f"UNDONE: {record.reason or 'aborted'}"
        case RunStatus.RUNNING if record.no_return:
            return (
                "UNFINISHED past the point of no return: trigger it again with the same parameters, it finishes the job"
            )
        case RunStatus.RUNNING:
            return "UNFINISHED: trigger it again with the same parameters, or `tanist failover abort`"


def _say(step: str, what: str) -> None:
    print(f"{step}: {what}")  # noqa: T201  # the task's log
