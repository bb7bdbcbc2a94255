"""The commands that a user would type, typed: printed, run, and their answer read."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed, TimedOut
from tanist_testkit.sandbox.workers import TANIST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.demo.screen import Screen

_LONGEST_SECONDS: Final = 180.0


class Running:
    """A command at work; what it says meanwhile is shown as it comes, unless it is quiet."""

    def __init__(self, argv: list[str], screen: Screen, *, quiet: bool) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        self._printed: list[str] = []
        streams = (
            (self.process.stderr, self.said, None if quiet else screen),
            (self.process.stdout, self._printed, None),
        )
        self._ears = [threading.Thread(target=self._listen, args=stream, daemon=True) for stream in streams]
        for ear in self._ears:
            ear.start()

    @staticmethod
    def _listen(stream: Iterator[str], heard: list[str], screen: Screen | None) -> None:
        for line in stream:
            heard.append(line)
            if screen:
                screen.note(f"  {line.strip()}")

    @property
    def last_words(self) -> str:
        """What it said last."""
        return self.said[-1].strip() if self.said else ""

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code and the items that it printed, once it has ended by itself. Raises TimedOut: it did not."""
        try:
            code = self.process.wait(_LONGEST_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise TimedOut(f"{' '.join(late.cmd[3:6])} has not ended after {late.timeout:.0f} s") from None
        for ear in self._ears:
            ear.join()
        printed = "".join(self._printed)
        return code, json.loads(printed)["items"] if printed else []


class DemoCommands:
    """`tanist ...` on one configuration."""

    def __init__(self, config: Path, screen: Screen) -> None:
        self._config = config
        self._screen = screen

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        """The items of the command's JSON; shown is what a person would type.

        Raises:
            ProcessFailed: with its last words, if it did not end with 0.
        """
        with self.begun(*arguments, quiet=True) as running:
            code, items = running.end()
        if code:
            raise ProcessFailed(f"tanist {' '.join(arguments[:3])} ended with {code}: {running.last_words}")
        return items

    @contextmanager
    def begun(self, *arguments: str, quiet: bool = False) -> Iterator[Running]:
        """The command at work; it does not outlive the block."""
        self._screen.command(f"tanist {shlex.join(arguments)}")
        argv = [*TANIST, *arguments, "--json", "--config", str(self._config)]
        running = Running(argv, self._screen, quiet=quiet)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()
