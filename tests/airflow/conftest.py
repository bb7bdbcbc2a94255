"""Airflow inside the test process: a metadata database of its own, and no component running.

Airflow reads its settings when it is first imported, so they are in the environment before any test module is.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.frozen import Ended, run
from tests.kafka.failover.conftest import pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import DAG
    from fastapi.testclient import TestClient

__all__ = ["pair"]  # the clusters of the failover tests, started once more for this folder

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tanist-airflow-"))
ASKING = "dag_test"
"""Whom `dag.test()` names as the user who triggered."""
USERS = {"admin": "admin", ASKING: "op", "op": "op", "op2": "op", "user": "user", "viewer": "viewer"}
"""Name (also the password) and role."""
SPARK = AirflowConnection(id="spark_default", type="spark", host="local[2]")

atexit.register(shutil.rmtree, HOME, ignore_errors=True)
(HOME / "passwords.json").write_text(json.dumps({name: name for name in USERS}))
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(HOME / "passwords.json"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": f"sqlite+aiosqlite:///{HOME}/airflow.db",
    "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
    "AIRFLOW__API__SECRET_KEY": "y" * 32,
}


def environment(*connections: AirflowConnection) -> dict[str, str]:
    """Where Airflow looks for its connections first."""
    return {
        f"AIRFLOW_CONN_{each.id.upper()}": json.dumps({"conn_type": each.type, "host": each.host, "extra": each.extra})
        for each in connections
    }


def login(client: TestClient, user: str) -> dict[str, str]:
    """The headers of a logged in user."""
    token = client.post("/auth/token", json={"username": user, "password": user}).json()["access_token"]
    return {"Authorization": f"Bearer {token}"}


@dataclass
class Answering:
    """A person at the gate: waits until it asks, does `first`, and answers; then `then`, with the answer's code."""

    client: TestClient
    user: str
    option: str = "Approve"
    first: Callable[[dict[str, Any]], object] = lambda _asked: None
    times: int = 1
    codes: list[int] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def answer(self, headers: dict[str, str]) -> None:
        self.codes += [respond(self.client, headers, self.asked, self.option) for _ in range(self.times)]

    def work(self) -> None:
        try:
            headers = login(self.client, self.user)
            while not self.ended.wait(0.2):
                if found := open_questions(self.client, headers):
                    self.asked = found[0]
                    self.first(self.asked)
                    return self.answer(headers)
        except BaseException as error:  # noqa: BLE001  # told by the test, which would wait for ever otherwise
            self.gives_up(error)

    def gives_up(self, error: BaseException) -> None:
        """End the run, which would wait for ever otherwise: every question is answered with No until it has ended."""
        self.error = error
        while not self.ended.wait(1.0):
            with contextlib.suppress(Exception):
                for asked in open_questions(self.client, login(self.client, "admin")):
                    respond(self.client, login(self.client, "op"), asked, "Reject")


class Sweeping(Answering):
    """Nobody at the gate, and the scheduler's look for answers that are overdue, which `dag.test()` does not have."""

    def answer(self, headers: dict[str, str]) -> None:
        from airflow.jobs.job import Job  # noqa: PLC0415 -- its settings are made above
        from airflow.jobs.scheduler_job_runner import SchedulerJobRunner  # noqa: PLC0415

        while not self.ended.wait(1.5) and open_questions(self.client, headers):
            SchedulerJobRunner(job=Job()).check_awaiting_input_timeouts()  # type: ignore[no-untyped-call]  # Airflow's own


def open_questions(client: TestClient, headers: dict[str, str]) -> list[dict[str, Any]]:
    found = client.get("/api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false", headers=headers).json()
    return [each for each in found["hitl_details"] if each["task_instance"]["state"] == "awaiting_input"]


def respond(client: TestClient, headers: dict[str, str], asked: dict[str, Any], option: str) -> int:
    at = asked["task_instance"]
    url = f"/api/v2/dags/{at['dag_id']}/dagRuns/{at['dag_run_id']}/taskInstances/{at['task_id']}/-1/hitlDetails"
    code: int = client.patch(url, json={"chosen_options": [option], "params_input": {}}, headers=headers).status_code
    return code


@dataclass(frozen=True)
class Ran:
    """A DAG run that has ended: the state of each task, and what they have left."""

    state: str
    tasks: dict[str, str]
    left: Callable[[str, str], Any]
    keys: Callable[[str], list[str]]
    """Of all XComs of a task."""

    def why(self, task: str) -> str:
        return str(self.left(task, "why"))

    @property
    def report(self) -> dict[str, Any]:
        return dict(self.left("report", "return_value"))


def _careless(connection: Any, _record: object) -> None:
    """A database that ends with the test need not survive the machine: nobody waits for its disk."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=OFF")
    cursor.close()


@dataclass(frozen=True)
class House:
    """Airflow in this process."""

    client: TestClient

    def dag(self, name: str) -> DAG:
        from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 -- its settings are made above

        bag = DagBag(str(ROOT / "dags"))
        assert not bag.import_errors
        return bag.dags[name]

    def run(self, dag: DAG, conf: dict[str, Any], person: Answering | None = None, by_hand: str = "") -> Ran:
        """Run it to its end, `person` answering; the tasks that `by_hand` matches are marked successful, not run."""
        from airflow.sdk.definitions.param import ParamsDict  # noqa: PLC0415 -- its settings are made above

        thread = threading.Thread(target=person.work, daemon=True) if person else None
        if thread:
            thread.start()
        holders = [ParamsDict(each.params) for each in (dag, *dag.tasks)]
        params = [each.get_param(name) for each in holders for name in each]
        defaults = [param.value for param in params]
        try:
            ended = run(dag, conf, by_hand)
        finally:
            for param, value in zip(params, defaults, strict=True):
                param.value = value  # a run in this process leaves its own there
            if person and thread:
                person.ended.set()
                thread.join(10)
        assert person is None or person.error is None, person.error
        return self.ran(dag.dag_id, ended)

    def ran(self, dag: str, ended: Ended) -> Ran:
        """Also of a run that was in another process of this Airflow."""

        def read(task: str, key: str = "") -> dict[str, Any]:
            url = f"/api/v2/dags/{dag}/dagRuns/{ended.run}/taskInstances/{task}/xcomEntries{key}"
            return dict(self.client.get(url, headers=login(self.client, "admin")).json())

        return Ran(
            ended.state,
            ended.tasks,
            lambda task, key: read(task, f"/{key}?stringify=false").get("value"),
            lambda task: [each["key"] for each in read(task)["xcom_entries"]],
        )


@pytest.fixture(scope="package")
def house() -> House:
    from airflow.api_fastapi.app import create_app  # noqa: PLC0415 -- its settings are made above
    from airflow.utils.db import initdb  # noqa: PLC0415
    from fastapi.testclient import TestClient  # noqa: PLC0415
    from sqlalchemy import Engine, event  # noqa: PLC0415

    event.listen(Engine, "connect", _careless)
    initdb()
    return House(TestClient(create_app()))
