"""The commands that a user would type, typed: printed, run, and their answer read."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed, TimedOut
from tanist_testkit.demo.workers import TANIST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.demo.screen import Screen

_LONGEST_SECONDS: Final = 180.0


def items_of(printed: str) -> list[dict[str, Any]]:
    """The items of a command's JSON."""
    found: list[dict[str, Any]] = json.loads(printed)["items"]
    return found


class Running:
    """A command at work; what it says meanwhile is shown as it comes."""

    def __init__(self, argv: list[str], screen: Screen) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        self._screen = screen
        self._ears = threading.Thread(target=self._listen, daemon=True)
        self._ears.start()

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.said.append(line.strip())
            self._screen.note(f"  {self.said[-1]}")

    def end(self) -> tuple[int, str]:
        """Its exit code and what it printed, once it has ended by itself.

        Raises:
            TimedOut: it did not.
        """
        assert self.process.stdout is not None  # noqa: S101 -- it is piped
        try:
            code = self.process.wait(_LONGEST_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise TimedOut(f"{' '.join(late.cmd[3:6])} has not ended after {late.timeout:.0f} s") from None
        self._ears.join()
        return code, self.process.stdout.read()


class DemoCommands:
    """`tanist ...` on one configuration."""

    def __init__(self, config: Path, screen: Screen) -> None:
        self._config = config
        self._screen = screen

    def run(self, *arguments: str, as_json: bool = False) -> str:
        """What the command printed; shown is what a person would type.

        Raises:
            ProcessFailed: with its last words, if it did not end with 0.
        """
        self._screen.command(f"tanist {shlex.join(arguments)}")
        done = subprocess.run(
            self._argv((*arguments, *(("--json",) if as_json else ()))),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ProcessFailed(f"tanist {' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The items of the command's JSON.

        Raises:
            ProcessFailed: if it did not end with 0.
        """
        return items_of(self.run(*arguments, as_json=True))

    @contextmanager
    def watched(self, *arguments: str) -> Iterator[Running]:
        """The command at work; it does not outlive the block."""
        self._screen.command(f"tanist {shlex.join(arguments)}")
        running = Running(self._argv((*arguments, "--json")), self._screen)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        return [*TANIST, *arguments, "--config", str(self._config)]
