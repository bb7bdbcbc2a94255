"""Whatever happens to the owner, nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.processes import Guardian, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INCLUDE = Path(__file__).parents[3] / "include"
OWNER = """
import sys, threading
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
cluster = SandboxCluster.new(ClusterSpec(name="orphan"))
thread = threading.Thread(target=cluster.start)
thread.start()
thread.join()
print(cluster.brokers[0].pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has started a cluster from a thread which has ended, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=os.environ | {"PYTHONPATH": str(INCLUDE), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def soon() -> Deadline:
    return Deadline(time.monotonic() + 5)


def test_a_killed_owner_leaves_nothing(
    owner: subprocess.Popen[str], tmp_path: Path, nothing_left: Callable[[Path], None]
) -> None:
    assert owner.stdout is not None
    broker = int(owner.stdout.readline())
    os.kill(broker, 0)
    os.kill(broker, signal.SIGSTOP)  # even one that hears nothing
    owner.kill()
    owner.wait(5)
    nothing_left(tmp_path)


def test_processes_outlive_the_thread_that_asked_for_them(tmp_path: Path) -> None:
    with Guardian() as guardian:
        started: list[Process] = []
        thread = threading.Thread(target=lambda: started.append(guardian.spawn(["sleep", "60"], tmp_path / "log")))
        thread.start()
        thread.join()
        assert started[0].alive
    assert started[0].wait(soon())


def test_released_processes_live_on_and_bound_ones_do_not(tmp_path: Path) -> None:
    guardian = Guardian()
    bound = guardian.spawn(["sleep", "60"], tmp_path / "log")
    free = guardian.spawn(["sleep", "60"], tmp_path / "log", bound=False)
    guardian.release()
    try:
        assert free.alive
        if sys.platform.startswith("linux"):
            assert bound.wait(soon())
    finally:
        assert free.send(signal.SIGKILL)
    assert free.wait(soon())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is needed")
def test_a_killed_guardian_takes_its_processes_along(tmp_path: Path) -> None:
    guardian = Guardian()
    child = guardian.spawn(["sleep", "60"], tmp_path / "log")
    assert guardian._helper is not None
    guardian._helper.kill()
    assert child.wait(soon())
    guardian.close()


def test_a_recycled_pid_is_never_hit() -> None:
    somebody_else = Process(os.getpid(), "started at another time")
    assert not somebody_else.alive
    assert not somebody_else.send(signal.SIGKILL)
