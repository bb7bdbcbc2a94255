"""A task that stands still in the middle of its step while somebody else ends the failover, and is woken afterwards.

Its process is stopped, and the DAG run with it; it goes on as if nothing had happened.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.wiring.failover import Folder
from tanist_testkit.sandbox import forks
from tests.airflow.conftest import environment
from tests.airflow.frozen import Ended
from tests.airflow.mirrors import conf, connections
from tests.kafka.failover.test_frozen_commands import mirrored, runs, writable
from tests.kafka.fetcher.rig import until
from tests.storm.proxy import BARRIER, WRITE_TXN_MARKERS, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.airflow.conftest import House, Ran
    from tests.kafka.failover.conftest import Doors, Pair

__all__ = ["connections"]  # a fixture

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.usefixtures("connections"),
]
SOON: Final = 150.0
SEEN: Final = ("observed/", "ends/", "ends-confirmed/", "groups/", "group/")


@dataclass(frozen=True)
class Trigger:
    """A DAG run in a process of its own, and its ways to both clusters."""

    house: House
    command: forks.Command
    doors: Doors

    def freeze(self) -> None:
        self.command.send(signal.SIGSTOP)

    def woken(self) -> tuple[Ran, str]:
        """What came of the run, and its log."""
        self.command.send(signal.SIGCONT)
        ended = self.command.wait(SOON)
        assert ended.code == 0, ended.err[-4000:]
        ran = self.house.ran("mirror_failover", Ended(**json.loads(ended.out.splitlines()[-1])))
        return ran, ended.out + ended.err


@contextmanager
def triggered(house: House, pair: Pair, mirror: str) -> Iterator[Trigger]:
    """Airflow goes on with the unfinished failover of `mirror`, by doors of its own; it does not outlive the block."""
    with Proxy() as proxy:
        doors = pair.doors(proxy)
        ways = {"east": doors.east.bootstrap_servers, "west": doors.west.bootstrap_servers}
        through = (
            replace(each, extra={**each.extra, "bootstrap.servers": ways[each.id]}) if each.id in ways else each
            for each in pair.connections()
        )
        reported = {**os.environ, **environment(*through)}
        command = forks.Command("tests.airflow.frozen:main", [json.dumps(conf(mirror))], reported, pair.home)
        try:
            yield Trigger(house, command, doors)
        finally:
            if command.alive:
                command.send(signal.SIGKILL)
                command.wait(SOON)


def at_step(plan: str) -> str:
    """The step that a run of `plan` through Airflow has begun and not ended, by its evidence; empty: none."""
    kept = Folder(Path(os.environ["TANIST_EVIDENCE"]) / plan).before()
    last = kept.events[-1] if kept and kept.events else None
    return last.step if last is not None and last.what in {"begins", "not yet"} else ""


@contextmanager
def unended(pair: Pair, topic: str) -> Iterator[None]:
    """A transaction at the source that no drain gets past."""
    app = Producer(pair.east.client("app", transactional_id=topic, transaction_timeout_ms="600000"))
    app.init_transactions(SOON)
    app.begin_transaction()
    app.produce(topic, b"open", key=b"k", partition=0)
    assert app.flush(SOON) == 0
    yield
    app.abort_transaction(SOON)


def records(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    """All that is on record of the mirror, but what its worker sees."""
    found = json.loads(pair.tanist("state", "dump", "--json").out)["items"]
    return [each for each in found if mirror in each["key"] and not each["key"].startswith(SEEN)]


@pytest.mark.long  # a frozen command, and the explorer, show the same in every `make test`
def test_a_task_that_was_frozen_in_its_drain_while_the_failover_was_aborted_changes_nothing(
    house: House, pair: Pair
) -> None:
    """It believes that the source is fenced and the mirror its own."""
    mirrored(pair, "frozen-drain", "frozen-drain")
    plan = pair.approved("frozen-drain")
    assert pair.killed("nowhere", "frozen-drain", plan, "hold") == 0
    with unended(pair, "frozen-drain"), triggered(house, pair, "frozen-drain") as late:
        until(lambda: at_step(plan) == "drain", SOON)
        late.freeze()
        assert writable(pair, "frozen-drain") == []
        pair.tanist("failover", "abort", "frozen-drain", "--reason", "it does not answer")
        assert writable(pair, "frozen-drain") == ["east"]
        before = records(pair, "frozen-drain")
        ran, _ = late.woken()
        assert records(pair, "frozen-drain") == before
    assert writable(pair, "frozen-drain") == ["east"]
    assert (ran.state, ran.tasks["drain"], ran.tasks["groups"]) == ("failed", "failed", "upstream_failed")
    assert f"RUN_ABORTED: plan {plan} was undone in the meantime" in ran.why("drain")
    assert ran.report["verdict"].startswith("UNDONE: aborted by ")


@pytest.mark.long  # as the one above
def test_a_task_that_was_frozen_at_its_barrier_while_the_failover_was_finished_changes_nothing(
    house: House, pair: Pair
) -> None:
    """Its request reaches the broker, and the answer finds a mirror that is another's, and done."""
    mirrored(pair, "frozen-seal", "frozen-seal")
    plan = pair.approved("frozen-seal")
    assert pair.killed("nowhere", "frozen-seal", plan, "hold") == 0
    with triggered(house, pair, "frozen-seal") as late:
        held = late.doors.west.hold(WRITE_TXN_MARKERS, BARRIER)
        assert held.wait(SOON)
        assert at_step(plan) == "seal"
        late.freeze()
        held.release()
        assert writable(pair, "frozen-seal") == []
        pair.tanist("failover", "run", "frozen-seal", "--plan", plan, "--json")
        assert writable(pair, "frozen-seal") == ["west"]
        before, copy = records(pair, "frozen-seal"), pair.west.read("frozen-seal")
        ran, log = late.woken()
        assert (records(pair, "frozen-seal"), pair.west.read("frozen-seal")) == (before, copy)
    assert writable(pair, "frozen-seal") == ["west"]
    assert [run["status"] for run in runs(pair, "frozen-seal")] == ["DONE"]
    assert "INTERRUPTED: another process has taken over this run" in log, "the task that was frozen"
    assert (ran.state, ran.tasks["seal"], ran.report["verdict"]) == ("success", "success", "DONE"), "its next try"
