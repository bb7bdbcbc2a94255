"""The commands that a user would type, typed: printed, run, and their answer read."""

from __future__ import annotations

import json
import os
import shlex
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed, TimedOut
from tanist_testkit.sandbox.forks import COMMANDS, FORKS, call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tanist_testkit.demo.screen import Screen

_LONGEST_SECONDS: Final = 180.0


def _work(arguments: Sequence[str], *streams: Connection) -> None:
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream.fileno(), number)
        stream.close()
    call(COMMANDS, arguments)


class Running:
    """A command in a process of its own; what it says meanwhile is shown as it comes, unless it is quiet."""

    def __init__(self, arguments: Sequence[str], screen: Screen, *, quiet: bool) -> None:
        self._name = " ".join(arguments[:3])
        self._printed, self._said = list[str](), list[str]()
        (out, theirs), (err, their_err) = FORKS.Pipe(duplex=False), FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=_work, args=(arguments, theirs, their_err), daemon=True)
        self.process.start()
        theirs.close()
        their_err.close()
        self._ears = [
            threading.Thread(target=_listen, args=(out, self._printed, None), daemon=True),
            threading.Thread(target=_listen, args=(err, self._said, None if quiet else screen), daemon=True),
        ]
        for ear in self._ears:
            ear.start()

    @property
    def last_words(self) -> str:
        """What it said last."""
        return self._said[-1].strip() if self._said else ""

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code and the items that it printed, once it has ended by itself. Raises TimedOut: it did not."""
        self.process.join(_LONGEST_SECONDS)
        if self.process.exitcode is None:
            raise TimedOut(f"tanist {self._name} has not ended after {_LONGEST_SECONDS:.0f} s")
        for ear in self._ears:
            ear.join()
        printed = "".join(self._printed)
        return self.process.exitcode, json.loads(printed)["items"] if printed else []


def _listen(stream: Connection, heard: list[str], screen: Screen | None) -> None:
    with stream, open(stream.fileno(), encoding="utf-8", closefd=False) as lines:
        for line in lines:
            heard.append(line)
            if screen:
                screen.note(f"  {line.strip()}")


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
        running = Running((*arguments, "--json", "--config", str(self._config)), self._screen, quiet=quiet)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.join()
