"""The demo end to end, and that nothing is left of it when it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tanist.wire.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = SystemClock()
OF_THE_TAKEOVERS = {
    "A planned failover loses nothing that a producer was told is safe",
    "Its fence stops the producers, and afterwards the destination takes their records",
    "An aborted failover leaves the source's topic exactly as it was",
    "After the abort its producers write on, and the mirror copies on",
    "The source is killed: acknowledged records that are lost lie inside the forecast",
    "What is lost is the very end, never a record before a copied one",
    "Producers go on at the destination",
    "The consumer group goes on at exactly the next record after its last safe commit",
}
DEMO = (sys.executable, "-m", "tanist.cli.main", "demo", "--yes")


def processes_of(directory: Path) -> list[str]:
    listed = subprocess.run(["ps", "-axo", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(directory) in line]


def nothing_runs(directory: Path) -> bool:
    by = CLOCK.deadline(10)
    while processes_of(directory):
        if not by.left(CLOCK.monotonic()):
            return False
        CLOCK.wait(0.1)
    return True


@pytest.mark.faults
@pytest.mark.timeout(420)
def test_every_promise_of_the_demo_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    done = subprocess.run([*DEMO, "--json", "--dir", str(home)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    items = json.loads(done.stdout)["items"]
    assert not [item for item in items if not item["ok"]], items
    assert {item["promise"] for item in items} >= OF_THE_TAKEOVERS
    assert len(items) >= 13 + len(OF_THE_TAKEOVERS)
    assert {"promise", "expected", "observed", "ok"} <= items[0].keys()
    assert nothing_runs(home)
    assert not (home / "east").exists()


@pytest.mark.faults
@pytest.mark.timeout(150)
@pytest.mark.parametrize("words", ["waiting until it answers", "kill -9"])
def test_after_ctrl_c_nothing_is_left(tmp_path: Path, words: str) -> None:
    home = tmp_path / "demo"
    with subprocess.Popen([*DEMO, "--dir", str(home)], stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        assert any(words in line for line in demo.stderr)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 130
    assert nothing_runs(home)
    assert not (home / "east").exists()
