"""The commands that a user would type, typed: printed, run, and their answer read."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from tanist.demo.workers import TANIST
from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.demo.screen import Screen

_LONGEST_SECONDS: Final = 120.0


class Commands:
    """`tanist ...` on one configuration."""

    def __init__(self, config: Path, screen: Screen) -> None:
        self._config = config
        self._screen = screen

    def run(self, *arguments: str) -> str:
        """What the command printed.

        Raises:
            ProcessFailed: with its last words, if it did not end with 0.
        """
        self._screen.command(f"tanist {shlex.join(arguments)}")
        done = subprocess.run(
            [*TANIST, *arguments, "--config", str(self._config)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ProcessFailed(f"tanist {' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout
