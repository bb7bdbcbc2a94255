"""One failover through a whole Airflow: asked for by one user, approved by another, everything killed on the way."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.kafka.wire.clock import SystemClock
from tanist.ports.clock import Deadline
from tanist_testkit.demo.airflow_runs import READ_SECONDS
from tanist_testkit.sandbox.airflow.home import Component
from tanist_testkit.sandbox.airflow.rest import AirflowRefused, Rest
from tests.airflow.whole import variables

if TYPE_CHECKING:
    from tanist_testkit.sandbox.airflow.service import Airflow
    from tests.conftest import SharedAirflow
    from tests.kafka.failover.conftest import Pair


DAG: Final = "mirror_failover"
PAST_NO_RETURN: Final = frozenset({"seal", "generation", "configs", "canary", "open", "movers"})


def soon(seconds: float = 90) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def kill(airflow: Airflow, component: Component) -> None:
    (found,) = (part for part in airflow.parts() if part.component == component)
    assert found.pid
    os.kill(found.pid, signal.SIGKILL)


def kill_one_of(person: Rest, run: str, steps: frozenset[str]) -> str:
    """The process of the first of `steps` that is seen at work."""
    by = soon(120)
    while by.left(time.monotonic()):
        tasks = person.call("GET", f"/dags/{DAG}/dagRuns/{run}/taskInstances")["task_instances"]
        for task in tasks:
            if task["task_id"] in steps and task["state"] == "running" and task["pid"]:
                with suppress(ProcessLookupError):
                    os.kill(task["pid"], signal.SIGKILL)
                    return str(task["task_id"])
        time.sleep(0.1)  # noqa: TID251 -- a step is short
    pytest.fail(f"none of {sorted(steps)} was seen at work")


def killed_on_the_way(airflow: Airflow, person: Rest, run: str) -> frozenset[str]:
    """The scheduler, the process of a step past the point of no return, and the triggerer; the step that was killed."""
    kill(airflow, Component.SCHEDULER)
    person.wait_for_task(DAG, run, "drain", frozenset({"success"}), soon(120))
    step = kill_one_of(person, run, PAST_NO_RETURN)
    kill(airflow, Component.TRIGGERER)
    return frozenset({step})


def approved(asks: Rest, approves: Rest, wanted: dict[str, Any]) -> str:
    """A run that the one asks for and the other approves, each time that it asks; who asks may not answer.

    Airflow may lose an answer that comes at once, and asks again a minute later (apache/airflow#67287).
    """
    by, run = soon(400), asks.trigger(DAG, wanted)
    while True:
        gate = asks.wait_for_task(DAG, run, "approve", frozenset({"awaiting_input", "success", "failed"}), by)
        if gate.state != "awaiting_input":
            assert gate.state == "success", asks.result(DAG, run, "approve", "why")
            return run
        with pytest.raises(AirflowRefused, match=r"not a respondent|already been updated"):
            asks.answer(DAG, run, "approve", "Approve")
        SystemClock().wait(READ_SECONDS)
        with suppress(AirflowRefused):  # it has been answered, and does not show that yet
            approves.answer(DAG, run, "approve", "Approve")


def log_of(person: Rest, run: str, task: str, tries: int) -> str | None:
    """The log of one try; None: Airflow has no record of it."""
    try:
        return person.log(DAG, run, task, tries=tries)
    except AirflowRefused as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        return None


@pytest.mark.long
def test_a_failover_through_airflow_whatever_is_killed(
    airflow: SharedAirflow, pair: Pair, topic_name: str, tmp_path: Path
) -> None:
    """`op` asks, `op2` approves, every step is done, the evidence is there; no secret is in anything that is shown.

    A second failover of the mirror does not begin meanwhile. The scheduler dies, and past the point of no return a step
    and the triggerer. (The demo runs one that nobody disturbs.)
    """
    pair.worker()
    pair.mirror(topic_name, topic_name)
    house = airflow(pair.connections())
    with house.rest("admin") as admin, house.rest("op") as op, house.rest("op2") as op2:
        variables.name(admin.call, TANIST_APPROVERS="op2", TANIST_EVIDENCE=str(tmp_path))
        op.wait_for_dag(DAG, soon())
        op.unpause(DAG)
        wanted = {"mirror": topic_name, "destination": "west", "fence_proof": 8, "validate": "nothing"}
        run = approved(op, op2, wanted)
        op.wait_for_task(DAG, run, "fence", frozenset({"running"}), soon())
        second = op.trigger(DAG, wanted)
        assert op.wait_for_run(DAG, second, soon()) == "failed"
        assert "RUN_UNDER_WAY" in op.result(DAG, second, "open_run", "why")
        again = killed_on_the_way(house, op, run)
        assert op.wait_for_run(DAG, run, soon(240)) == "success"

        assert again <= {task.id for task in op.tasks(DAG, run) if task.tries > 1}
        report = dict(op.result(DAG, run, "report"))
        shown = [json.dumps(op.result(DAG, run, task.id)) for task in op.tasks(DAG, run)]
        for task in op.tasks(DAG, run):
            logs = [log for n in range(task.tries) if (log := log_of(op, run, task.id, n + 1)) is not None]
            assert logs, f"{task.id} has left no log"
            shown += logs
        shown += [json.dumps(admin.connection(name)) for name in ("east", "west", "west_approver")]
        shown += [json.dumps(op.call("GET", f"/dags/{DAG}/dagRuns/{run}/taskInstances"))]  # with rendered fields
        gate = json.dumps(op.gates(DAG, run))
        shown.append(gate)
    assert report["verdict"] == "DONE"
    assert report["approver"] == "op2 via Airflow (User:approver)"
    assert report["plan_hash"] in gate
    assert (Path(report["evidence"]) / "evidence.json").exists()
    passwords = {
        str(side.client(user)["sasl.password"]) for side in (pair.east, pair.west) for user in ("mirror", "approver")
    }
    assert not [text[:300] for text in shown for password in passwords if password in text]
    assert pair.west.writes(topic_name, range(2)), "the destination takes over"
    assert not pair.east.writes(topic_name, range(2)), "the source is fenced"
