"""How the tests of the sandbox look at processes."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _processes_of(directory: Path) -> list[str]:
    listed = subprocess.run(["ps", "-axo", "pid=,stat=,args="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(directory) in line]


@pytest.fixture
def nothing_left() -> Callable[[Path], None]:
    """Fails when a process that names `directory`, or a temporary directory in it, is still there after 5 s."""

    def check(directory: Path) -> None:
        deadline = time.monotonic() + 5
        while left := [*_processes_of(directory), *directory.glob("tanist-*")]:
            assert time.monotonic() < deadline, left
            pause(0.05)

    return check


def pause(seconds: float) -> None:
    subprocess.run(["sleep", str(seconds)], check=True)
