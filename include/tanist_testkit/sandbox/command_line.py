"""The commands that a user would type, typed: shown, run, and their answer read."""

from __future__ import annotations

import shlex
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed
from tanist_testkit.sandbox.forks import COMMANDS, Command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.screen import Screen

LONGEST_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.1


class CommandLine:
    """`tanist ...` on one configuration."""

    def __init__(self, config: Path, screen: Screen) -> None:
        self._config = config
        self._screen = screen

    def run(self, *arguments: str, quiet: bool = True, verdict: bool = False) -> list[dict[str, Any]]:
        """The items of the command's JSON; shown is what a person would type, and what it says unless `quiet`.

        Raises:
            ProcessFailed: with its last words, if it did not end with 0; a `verdict` that it found may be bad.
            TimedOut: it did not end within LONGEST_SECONDS.
        """
        with self.begun(*arguments, quiet=quiet) as command:
            ended = command.wait(LONGEST_SECONDS)
        if ended.code and not (verdict and ended.items):
            raise ProcessFailed(f"tanist {' '.join(arguments[:3])} ended with {ended.code}: {ended.last_words}")
        return ended.items

    @contextmanager
    def begun(self, *arguments: str, quiet: bool = False) -> Iterator[Command]:
        """The command at work; it does not outlive the block. What it says is shown as it comes, unless `quiet`."""
        self._screen.command(f"tanist {shlex.join(arguments)}")
        command = Command(COMMANDS, (*arguments, "--json", "--config", str(self._config)))
        over = threading.Event()
        shows = threading.Thread(target=self._show, args=(command, over), daemon=True)
        if not quiet:
            shows.start()
        try:
            yield command
        finally:
            command.kill()
            over.set()
            if not quiet:
                shows.join()

    def _show(self, command: Command, over: threading.Event) -> None:
        shown, ended = 0, False
        while not ended:
            ended = over.wait(_LOOK_SECONDS)
            for line in command.said()[shown:].splitlines(keepends=True):
                if ended or line.endswith("\n"):
                    self._screen.note(f"  {line.strip()}")
                    shown += len(line)
