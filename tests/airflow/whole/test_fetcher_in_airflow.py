"""The fetcher in a whole Airflow, copying between real clusters: whatever is killed, one runs, or none if none should.

Each test finds one running and leaves one running, but the last one: it leaves none.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tanist.domain.names import MirrorName
from tanist.domain.selection import Selection
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.clock import Deadline
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.wait import Goal, wait_for
from tanist.wiring.registry import ClusterRegistry
from tanist_testkit.sandbox.airflow.connections import connections
from tanist_testkit.sandbox.airflow.home import Component
from tests.airflow.whole import variables
from tests.kafka.cli.conftest import Broker, section
from tests.kafka.sandbox.conftest import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist_testkit.sandbox.airflow.service import Airflow
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.conftest import SharedAirflow

DAG: Final = "fetcher_host"
MIRROR: Final = MirrorName("hosted")
LONG: Final = 300.0
"""Seconds: what has not come by then does not come, on the slowest machine."""


def until(look: Callable[[], Any], seconds: float = LONG) -> Any:
    """What `look` finds, once it finds anything; it reads /proc, or has Airflow ask both clusters."""
    by = Deadline(time.monotonic() + seconds)
    while not (found := look()):
        assert by.left(time.monotonic()), look
        pause(0.5)
    return found


class Hosted:
    """An Airflow whose DAG hosts the fetcher of west, and a mirror for it to work on."""

    def __init__(self, airflow: Airflow, registry: ClusterRegistry, topic: str, bootstrap: str) -> None:
        self.airflow, self.world, self.topic = airflow, registry, topic
        self.producer = Producer({"bootstrap.servers": bootstrap})

    def fetchers(self) -> set[int]:
        """Processes of this Airflow that copy."""
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command, around = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            except OSError:
                continue
            if b"tanist.airflow.worker" in command and str(self.airflow.directory).encode() in around:
                found.add(int(process.name))
        return found

    def running(self) -> int:
        """The one that runs."""
        (pid,) = until(self.fetchers)
        return int(pid)

    def another(self, than: int) -> int:
        (pid,) = until(lambda: self.fetchers() - {than})
        return int(pid)

    def pause(self, *, paused: bool) -> None:
        with self.airflow.rest("op") as op:
            op.pause(DAG, paused=paused)

    def triggerer_log(self) -> str:
        return self.airflow.log_file(Component.TRIGGERER).read_text(encoding="utf-8", errors="replace")

    def go(self) -> dict[str, Any] | None:
        """What the page tells a viewer of our mirror, once it says GO."""
        with httpx.Client(base_url=self.airflow.url, trust_env=False, timeout=30) as http:
            given = {"username": "viewer", "password": json.loads(self.airflow.passwords.read_text("utf-8"))["viewer"]}
            token = http.post("/auth/token", json=given).json()["access_token"]
            answer = http.get("/tanist/status.json", headers={"Authorization": f"Bearer {token}"})
        found = [item for item in answer.json()["items"] if (item["mirror"], item["planned"]) == (MIRROR, "GO")]
        return found[0] if found else None

    def copies(self) -> None:
        """New records of the source arrive at the destination."""
        for number in range(100):
            self.producer.produce(self.topic, f"record {number}")
        assert not self.producer.flush(20)
        clock = SystemClock()
        run = CommandContext(clock=clock, by=clock.deadline(LONG))
        describer = self.world.describer(self.world.connect("west"), Selection((self.topic,)))
        for goal in ("lag=0", "state=MIRRORING"):
            wait_for(MIRROR, Goal.parse(goal), describer, run)


@pytest.fixture(scope="module")
def hosted(
    airflow: SharedAirflow, clusters: Mapping[str, SandboxCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    file = tmp_path_factory.mktemp("hosted") / "tanist.toml"
    file.write_text("".join(section(cluster) for cluster in clusters.values()))
    settings = load(file, {})
    topic, clock = f"hosted-{os.getpid()}", SystemClock()
    with ClusterRegistry(settings) as world:
        Broker(AdminClient({"bootstrap.servers": clusters["east"].bootstrap_servers})).topic(topic, 3)
        run = CommandContext(clock=clock, by=clock.deadline(LONG))
        create(CreateRequest(mirror=MIRROR, include=(topic,)), world.connect("east"), world.connect("west"), run)
        box = airflow(connections(settings))
        with box.rest("admin") as admin:
            variables.name(admin.call, TANIST_DESTINATIONS="west")
        (box.spec.dags / f"{DAG}.py").touch()  # a changed file is read at once, the others every 20 s
        found = Hosted(box, world, topic, clusters["east"].bootstrap_servers)
        until(lambda: "tanist" in str(dag(box).get("asset_expression")))
        found.pause(paused=False)
        try:
            yield found
        finally:
            if box.running:
                found.pause(paused=True)
                until(lambda: not found.fetchers())


def dag(box: Airflow) -> dict[str, Any]:
    with box.rest("op") as op:
        op.wait_for_dag(DAG, Deadline(time.monotonic() + LONG))
        return op.call("GET", f"/dags/{DAG}/details")


def test_unpaused_it_runs_and_copies_and_the_page_says_go(hosted: Hosted) -> None:
    """By connections of Airflow's database, as one worker whose name says where it runs; its log is the triggerer's."""
    pid = hosted.running()
    hosted.copies()
    item = until(hosted.go)
    (alive,) = [worker for worker in item["workers"] if worker["alive"]]
    assert alive["worker"].startswith("airflow-")
    assert alive["worker"].endswith(f"-{pid}")
    assert "started fetcher" in hosted.triggerer_log()
    assert alive["worker"] in hosted.triggerer_log()


def test_the_page_is_for_those_who_are_signed_in(hosted: Hosted) -> None:
    for path in ("/tanist/", "/tanist/status.json"):
        assert httpx.get(hosted.airflow.url + path, trust_env=False, timeout=30).status_code == 401


def test_a_killed_fetcher_is_started_again_and_a_run_says_so(hosted: Hosted) -> None:
    with hosted.airflow.rest("op") as op:
        before = len(op.runs(DAG))
        os.kill(pid := hosted.running(), signal.SIGKILL)
        hosted.another(pid)
        until(lambda: len(op.runs(DAG)) > before)
        run = op.runs(DAG)[0]["dag_run_id"]
        ended = op.wait_for_run(DAG, run, Deadline(time.monotonic() + LONG))
        (task,) = op.tasks(DAG, run)
        log = op.log(DAG, run, task.id, tries=task.tries)
    assert ended == "success", log
    assert "The fetcher of west ended with exit code -9" in log
    assert "check the host for the out-of-memory killer" in log
    hosted.copies()


@pytest.mark.long  # `make test` kills the fetcher alone
def test_a_killed_triggerer_takes_it_along_and_the_next_one_starts_another(hosted: Hosted) -> None:
    pid = hosted.running()
    (triggerer,) = [part for part in hosted.airflow.parts() if part.component is Component.TRIGGERER]
    assert triggerer.pid
    os.kill(triggerer.pid, signal.SIGKILL)
    until(lambda: pid not in hosted.fetchers(), 5)
    hosted.another(pid)
    hosted.copies()


def test_paused_it_is_gone_and_nothing_brings_it_back(hosted: Hosted) -> None:
    """The last one."""
    hosted.running()
    hosted.pause(paused=True)
    until(lambda: not hosted.fetchers())
    pause(3)
    assert not hosted.fetchers()
    assert hosted.airflow.healthy
