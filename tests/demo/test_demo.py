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
@pytest.mark.timeout(300)
def test_every_promise_of_the_demo_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    done = subprocess.run([*DEMO, "--json", "--dir", str(home)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    items = json.loads(done.stdout)["items"]
    assert len(items) >= 10
    assert all(item["ok"] for item in items), items
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
