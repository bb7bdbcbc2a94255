"""The demo end to end, and that nothing is left of it when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tanist.kafka.wire.clock import SystemClock

CLOCK = SystemClock()
OF_THE_TAKEOVERS = {
    "A planned failover loses nothing that a producer was told is safe",
    "Its fence stops the producers, and afterwards the destination takes their records",
    "An aborted failover leaves the source's topic exactly as it was",
    "An aborted failover leaves the source's ACLs exactly as they were",
    "After the abort its producers write on, and the mirror copies on",
    "The source is killed: acknowledged records that are lost lie inside the forecast",
    "What is lost is the very end, never a record before a copied one",
    "Producers go on at the destination",
    "The consumer group goes on at exactly the next record after its last safe commit",
}
OF_THE_WAY_BACK = {
    "Every record that was sent since the kill is accounted for",
    "Every record that either cluster has acknowledged is in the log or in quarantine",
    "Apart from what was rescued, both clusters have the same record at every offset",
    "After the failback the mirror runs in its first direction again",
}
THROUGH_AIRFLOW = {
    "Spark finds the copy equal, every stored byte at its offset",
    "2 failovers went through Airflow, every task of theirs done",
    "What was run is what the approver was shown",
    "Nobody approves what they have asked for, though they try",
}
DEMO = (sys.executable, "-m", "tanist.cli.main", "demo", "--yes")
BY_HAND = (*DEMO, "--no-airflow")
STARTED_BY = "TANIST_TEST_DEMO"
FEW = ("--records", "20000")
"""What is killed is killed within the first seconds, whatever is written after it."""
WITHOUT_AIRFLOW = "import sys; sys.modules |= dict.fromkeys(['airflow', 'httpx']); import tanist_testkit.demo.chapters"


def processes_of(directory: Path) -> list[str]:
    """What runs for it, by command line or, where there is a /proc, by who has started it."""
    listed = subprocess.run(["ps", "-axo", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    named = [line for line in listed.stdout.splitlines() if str(directory) in line]
    return [*named, *having("AIRFLOW_HOME", directory), *having(STARTED_BY, directory)]


def having(variable: str, directory: Path) -> list[str]:
    """Processes whose environment names it there: a command that was forked has no command line of its own."""
    mark = f"{variable}={directory}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes():
                found.append(process.name)
    return found


def environment(directory: Path) -> dict[str, str]:
    return {**os.environ, STARTED_BY: str(directory)}


def nothing_runs(directory: Path) -> bool:
    by = CLOCK.deadline(10)
    while processes_of(directory):
        if not by.left(CLOCK.monotonic()):
            return False
        CLOCK.wait(0.1)
    return True


def whole(home: Path, *command: str) -> list[dict[str, Any]]:
    """Its promises, all of them kept; nothing runs, and no data are left."""
    asked = [*command, "--json", "--dir", str(home)]
    done = subprocess.run(asked, env=environment(home), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-3000:]
    items: list[dict[str, Any]] = json.loads(done.stdout).get("items", [])
    assert not [item for item in items if not item["ok"]], done.stderr[-3000:]
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert nothing_runs(home)
    assert {file.name for file in home.iterdir()} & {"east", "west", "airflow"} == set()
    return items


@pytest.mark.long
def test_every_promise_of_the_demo_is_kept(tmp_path: Path) -> None:
    """By hand; CI runs `make demo` itself for every commit, which goes through Airflow."""
    items = whole(tmp_path / "demo", *BY_HAND, *FEW)
    assert {item["promise"] for item in items} >= OF_THE_TAKEOVERS | OF_THE_WAY_BACK
    assert len(items) >= 13 + len(OF_THE_TAKEOVERS | OF_THE_WAY_BACK)
    assert {"promise", "expected", "observed", "ok"} <= items[0].keys()


@pytest.mark.long
@pytest.mark.airflow
@pytest.mark.timeout(1200)
def test_through_airflow_they_are_kept_as_well(tmp_path: Path) -> None:
    """Its own promises come on top, and each plan that was run has left evidence."""
    items = whole(tmp_path / "demo", *DEMO)
    assert {item["promise"] for item in items} >= OF_THE_TAKEOVERS | OF_THE_WAY_BACK | THROUGH_AIRFLOW
    assert len(list((tmp_path / "demo" / "evidence").glob("*/evidence.html"))) == 4


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(DEMO, "waiting until it answers", id="while all starts"),
        pytest.param(BY_HAND, "kill -9", id="in a disaster", marks=pytest.mark.long),
    ],
)
def test_after_ctrl_c_nothing_is_left(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    home = tmp_path / "demo"
    asked = [*command, "--dir", str(home)]
    with subprocess.Popen(asked, env=environment(home), stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stderr is not None
            assert any(words in line for line in demo.stderr)
            assert (command is BY_HAND) or having("AIRFLOW_HOME", home), "nothing to clean up"
            demo.send_signal(signal.SIGINT)
            assert demo.wait(20) == 130
        finally:
            demo.kill()
    assert nothing_runs(home)
    assert {file.name for file in home.iterdir()} & {"east", "west", "airflow"} == set()


def test_without_the_packages_of_airflow_the_demo_runs_by_hand() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_AIRFLOW], check=True)


def test_interactive_means_airflow() -> None:
    refused = subprocess.run([*BY_HAND, "--interactive"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--interactive needs Airflow" in refused.stderr
