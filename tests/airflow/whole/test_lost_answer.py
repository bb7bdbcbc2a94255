"""The scheduler reads the end of the asking process when the task that resumes is queued, or runs, and fails it.

apache/airflow#67287 (QUEUED), #72716 and #71580 (RUNNING): by chance in one of three demos, here by freezing workers of
the executor at the right moment.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.home import Component
from tests.airflow.whole import variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist_testkit.sandbox.airflow.rest import Rest
    from tanist_testkit.sandbox.airflow.service import Airflow
    from tests.conftest import SharedAirflow
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.timeout(500)

DAG: Final = "mirror_failover"
GATE: Final = "approve"


def soon(seconds: float = 90) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def wait(holds: Callable[[], object], what: str, seconds: float = 60, every: float = 0.02) -> None:
    by = soon(seconds)
    while not holds():
        assert by.left(time.monotonic()), what
        time.sleep(every)  # noqa: TID251 -- the moment counts


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def workers(airflow: Airflow) -> list[int]:
    """The processes of the executor: children of the scheduler."""
    (scheduler,) = (part.pid for part in airflow.parts() if part.component == Component.SCHEDULER)
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if parent_of(int(each.name)) == scheduler and b"airflow worker" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


class Gate:
    """The gate of one run, as a user of Airflow sees it."""

    def __init__(self, person: Rest, run: str) -> None:
        self.person, self.run = person, run

    def now(self) -> dict[str, Any]:
        found = self.person.call("GET", f"/dags/{DAG}/dagRuns/{self.run}/taskInstances/{GATE}")
        return dict(found)

    def is_in(self, *states: str) -> bool:
        return self.now()["state"] in states

    def asking_worker(self) -> int:
        """The worker whose task asks, frozen when it has asked; it has not reported its end yet."""
        wait(lambda: self.is_in("running") and self.now()["pid"], "the gate does not run")
        worker = parent_of(self.now()["pid"])
        wait(lambda: self.is_in("awaiting_input"), "the gate does not ask")
        os.kill(worker, signal.SIGSTOP)
        return worker

    def mismatches(self, admin: Rest) -> int:
        """How often the scheduler took the end of a process for one of a task that it had given up."""
        found = admin.call("GET", f"/eventLogs?dag_id={DAG}&run_id={self.run}&event=state mismatch")
        return int(found["total_entries"])


@pytest.fixture
def thawed() -> Iterator[list[int]]:
    """Processes that go on whatever becomes of the test."""
    frozen: list[int] = []
    yield frozen
    for pid in frozen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("race", ["running", "queued"])
def test_an_answer_that_the_scheduler_loses_is_no_failover_that_is_lost(
    airflow: SharedAirflow, pair: Pair, topic_name: str, tmp_path: Path, thawed: list[int], race: str
) -> None:
    """`running`: its process may still write the approval. `queued`: nobody has heard the answer: it asks again."""
    pair.worker()
    pair.mirror(topic_name, topic_name)
    house = airflow(pair.connections())
    with house.rest("admin") as admin, house.rest("op") as op, house.rest("op2") as op2:
        variables.name(admin.call, TANIST_APPROVERS="op2", TANIST_EVIDENCE=str(tmp_path))
        op.wait_for_dag(DAG, soon())
        op.unpause(DAG)
        wanted = {"mirror": topic_name, "destination": "west", "fence_proof": 1, "validate": "nothing"}
        gate = Gate(op, op.trigger(DAG, wanted))
        asking = gate.asking_worker()
        thawed.append(asking)
        first = op.gates(DAG, gate.run)[0]["body"]
        if race == "queued":
            for pid in set(workers(house)) - {asking}:
                os.kill(pid, signal.SIGSTOP)
                thawed.append(pid)
        op2.answer(DAG, gate.run, GATE, "Approve")
        wait(lambda: gate.is_in(race), f"the gate is not {race}: {gate.now()['state']}")
        os.kill(asking, signal.SIGCONT)
        wait(lambda: gate.mismatches(admin), "the scheduler has not failed it")
        for pid in thawed:
            os.kill(pid, signal.SIGCONT)

        answers = [200]

        def over() -> bool:
            if gate.is_in("awaiting_input"):
                assert op.gates(DAG, gate.run)[0]["body"] == first, "another question"
                op2.answer(DAG, gate.run, GATE, "Approve")
                answers.append(200)
                wait(lambda: not gate.is_in("awaiting_input"), "the answer is not taken")
            return str(op.run(DAG, gate.run)["state"]) in {"success", "failed"}

        wait(over, "the run does not end", 240, every=0.5)
        assert op.run(DAG, gate.run)["state"] == "success", dict(op.result(DAG, gate.run, "report"))
        assert dict(op.result(DAG, gate.run, "report"))["verdict"] == "DONE"
        tries = {task.id: task.tries for task in op.tasks(DAG, gate.run)}
    assert tries[GATE] > 1
    if race == "queued":
        assert len(answers) == 2
    assert pair.west.writes(topic_name, range(2))
