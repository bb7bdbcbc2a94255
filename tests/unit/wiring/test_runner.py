"""Whether the holder of a lock is dead: only what proves it counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.wiring import failover
from tanist.wiring.failover import is_process_dead, runner

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not tell")
NAMED = "import time\nfrom tanist.wiring.failover import runner\nprint(runner(), flush=True)\ntime.sleep(60)"


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that is at work, and its name."""
    with subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_killed_process_is_dead_also_before_its_parent_has_noticed(
    other: tuple[subprocess.Popen[str], str],
) -> None:
    """In a container nobody waits for it: its lock was held for ten seconds on its own host."""
    process, name = other
    assert f" pid {process.pid} [" in name
    assert not is_process_dead(name)
    process.send_signal(signal.SIGSTOP)
    assert not is_process_dead(name), "it is frozen, and goes on when it wakes"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the table
    assert Path(f"/proc/{process.pid}").exists()
    assert is_process_dead(name)
    process.wait()
    assert is_process_dead(name)


def test_a_number_that_another_process_has_now_is_not_the_holder() -> None:
    name, _, started = runner().rpartition(":")
    assert not is_process_dead(runner())
    assert is_process_dead(f"{name}:{int(started[:-1]) + 1}]")


@pytest.mark.parametrize(
    "name",
    [
        "eve@host pid 999999999",
        "eve@host",
        "worker w-1",
        "command 0123456789ab",
        "eve@host pid 999999999 [0123456789abcdef:5]",
        "",
    ],
)
def test_what_is_not_proved_is_not_dead(name: str) -> None:
    """As an older version named it, on another host, or before this one was booted again."""
    assert not is_process_dead(name)


def test_nothing_is_proved_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name, _, _ = runner().partition(" pid ")
    gone = f"{name} pid 999999999 [{runner().rpartition('[')[2]}"
    assert is_process_dead(gone)
    monkeypatch.setattr(failover, "_PROC", tmp_path)
    assert not is_process_dead(gone)
    assert runner().endswith(f" pid {os.getpid()}")
