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
from urllib.parse import urlencode

import pytest

from tanist.domain.errors import Unreachable
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.home import Component
from tests.airflow.whole import variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist_testkit.sandbox.airflow.rest import Rest
    from tanist_testkit.sandbox.airflow.service import Airflow
    from tests.conftest import SharedAirflow
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.long

DAG: Final = "mirror_failover"
GATE: Final = "approve"


def soon(seconds: float = 90) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def wait(holds: Callable[[], object], what: str, seconds: float = 60, every: float = 0.05) -> None:
    by = soon(seconds)
    while not holds():
        assert by.left(time.monotonic()), what
        time.sleep(every)  # noqa: TID251 -- the moment counts


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie that its parent has not looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


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
        """As it is now; an Airflow that is too busy to answer is asked again."""
        while True:
            with suppress(Unreachable):
                return dict(self.person.call("GET", f"/dags/{DAG}/dagRuns/{self.run}/taskInstances/{GATE}"))

    def is_in(self, *states: str) -> bool:
        return self.now()["state"] in states

    def running(self, before: int = 0) -> int:
        """The process of its task, once it runs; another one than `before`."""
        wait(
            lambda: (found := self.now())["state"] == "running" and found["pid"] not in {None, before},
            "no process",
            150,
        )
        return int(self.now()["pid"])

    def answer_until_over(self, approves: Rest, first: str) -> int:
        """Answer each time that it asks, which must be the `first` question; how often that was."""
        answers: list[str] = []

        def over() -> bool:
            with suppress(Unreachable):
                if self.is_in("awaiting_input"):
                    answers.append(self.person.gates(DAG, self.run)[0]["body"])
                    approves.answer(DAG, self.run, GATE, "Approve")
                    wait(lambda: not self.is_in("awaiting_input"), "the answer is not taken")
                return str(self.person.run(DAG, self.run)["state"]) in {"success", "failed"}
            return False

        wait(over, "the run does not end", 240, every=0.5)
        assert set(answers) <= {first}, "another question"
        return len(answers)

    def mismatches(self, admin: Rest) -> int:
        """How often the scheduler took the end of a process for that of one that it has started since."""
        wanted = urlencode({"dag_id": DAG, "run_id": self.run, "event": "state mismatch"})
        found = admin.call("GET", f"/eventLogs?{wanted}")
        return int(found["total_entries"])


class Frozen:
    """Processes that go on whatever becomes of the test."""

    def __init__(self) -> None:
        self._pids: list[int] = []

    def __call__(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            self._pids.append(pid)

    def thaw(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.fixture
def freeze() -> Iterator[Frozen]:
    frozen = Frozen()
    yield frozen
    frozen.thaw()


ATTEMPTS: Final = 4
"""So often the race is tried. A run whose answer was not lost must end well, too."""


# What follows a lost answer is in `../test_lost_answers.py`, and no scheduler is waited for there.
@pytest.mark.parametrize("race", ["running", "queued"])
def test_an_answer_that_the_scheduler_loses_is_no_failover_that_is_lost(
    airflow: SharedAirflow, pair: Pair, topic_name: str, tmp_path: Path, freeze: Frozen, race: str
) -> None:
    """`running`: its process still writes the approval. `queued`: nobody has heard the answer, so it asks again."""
    pair.worker()
    house = airflow(pair.connections())
    with house.rest("admin") as admin, house.rest("op") as op, house.rest("op2") as op2:
        variables.name(admin.call, TANIST_APPROVERS="op2", TANIST_EVIDENCE=str(tmp_path))
        op.wait_for_dag(DAG, soon())
        op.unpause(DAG)
        lost, again, topic, tries = False, 0, topic_name, dict[str, int]()
        for attempt in range(ATTEMPTS):
            topic = f"{topic_name}-{attempt}"
            pair.mirror(topic, topic)
            wanted = {"mirror": topic, "destination": "west", "fence_proof": 1, "validate": "nothing"}
            gate = Gate(op, op.trigger(DAG, wanted))
            first = lose_the_answer(gate, house, op2, freeze, race)
            lost = has_been_lost(gate, admin)
            freeze.thaw()
            again = gate.answer_until_over(op2, first)
            assert op.run(DAG, gate.run)["state"] == "success", dict(op.result(DAG, gate.run, "report"))
            assert dict(op.result(DAG, gate.run, "report"))["verdict"] == "DONE"
            tries = {task.id: task.tries for task in op.tasks(DAG, gate.run)}
            if lost:
                break
    assert lost, "the scheduler has failed no gate"
    assert tries[GATE] > 1
    if race == "queued":
        assert again, "nobody had heard the first answer"
    assert pair.west.writes(topic, range(2))


def lose_the_answer(gate: Gate, house: Airflow, approves: Rest, freeze: Frozen, race: str) -> str:
    """Answer the gate before its scheduler hears that the asking process has ended. Returns the question."""
    asks = gate.running()
    worker = parent_of(asks)
    wait(lambda: has_ended(asks), "the gate does not ask", every=0.002)
    freeze(worker)  # it has not reported that the process has ended, if this was soon enough
    wait(lambda: gate.is_in("awaiting_input"), "the gate does not ask")
    first = str(gate.person.gates(DAG, gate.run)[0]["body"])
    if race == "queued":
        freeze(*set(workers(house)) - {worker})
    approves.answer(DAG, gate.run, GATE, "Approve")
    if race == "queued":
        wait(lambda: gate.is_in("queued"), "the gate is not queued")
    else:
        freeze(gate.running(asks))
    os.kill(worker, signal.SIGCONT)
    return first


def has_been_lost(gate: Gate, admin: Rest) -> bool:
    """Whether the scheduler fails the gate; on a busy machine the worker may have reported before it was frozen."""
    with suppress(AssertionError):
        wait(lambda: gate.mismatches(admin) or gate.is_in("success"), "nothing is told", 30)
    return gate.mismatches(admin) > 0
