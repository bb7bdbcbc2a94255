"""The command line in processes of their own that begin at once: forked from one that has imported it already.

Importing takes most of a second of processor; a demo, or a test of a failover, runs dozens of commands.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.errors import TimedOut

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

COMMANDS: Final = "tanist.cli.main:main"
"""The entry point of the console script: with its signals, and as seldom looking for garbage."""
FORKS: Final = multiprocessing.get_context("forkserver")
"""Its processes are forks of one that has imported the command line."""
_LATER: Final = ("tanist.kafka.adapters", "tanist.kafka.wire")
"""What commands import only when they are at work."""


def preload(*more: str) -> None:
    """Before the first fork: they are to find `more` modules imported, too."""
    later = (f"{room}.{found.name}" for room in _LATER for found in iter_modules(import_module(room).__path__))
    FORKS.set_forkserver_preload(["tanist.cli.main", "tanist.cli.app", *more, "typer._adapters", *later])


def prepare() -> None:
    """Imports it now, aside, rather than when the first command begins."""
    forkserver.ensure_running()


class CommandResult(NamedTuple):
    """`code`: negative for the signal that ended it. `out`, `err`: what it wrote."""

    code: int
    out: str
    err: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """What a command that was run with `--json` found; nothing, if it printed nothing."""
        return json.loads(self.out)["items"] if self.out else []

    @property
    def last_words(self) -> str:
        """The last line of its standard error."""
        return self.err.strip().rpartition("\n")[2].strip()


class Command:
    """`entry` (module:function) with these arguments, in a process of its own that has begun.

    `environment`: all of it, None: as here. `home`: its working directory, None: as here.
    """

    def __init__(
        self,
        entry: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self._name = " ".join(arguments[:3])
        self._ended: CommandResult | None = None
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
            self._out, self._err = (Path(file.name) for file in files)
            inherited = environment if environment is None else dict(environment)
            work = (entry, tuple(arguments), inherited, home, self._out, self._err)
            self._process = FORKS.Process(target=_work, args=work, daemon=True)
            self._process.start()
            self._files = stack.pop_all()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.is_alive()

    @property
    def stopped(self) -> bool:
        """Whether it waits for SIGCONT (proc(5): the third field, behind the name in brackets)."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[0] == "T"

    def said(self) -> str:
        """What it has written to its standard error so far."""
        return self._ended.err if self._ended else self._err.read_text(encoding="utf-8", errors="replace")

    def send(self, sign: signal.Signals) -> None:
        """Signal it; nothing where it has ended."""
        if self._process.is_alive() and self._process.pid:
            os.kill(self._process.pid, sign)

    def wait(self, seconds: float) -> CommandResult:
        """What it has left, once it has ended by itself.

        Raises:
            TimedOut: it had not after `seconds`; it was killed.
        """
        self._process.join(seconds)
        late = self._process.is_alive()
        ended = self.kill()
        if late:
            raise TimedOut(f"{self._name} has not ended after {seconds:.0f} s: {ended.err}")
        return ended

    def kill(self) -> CommandResult:
        """What it has left; it does not run any more."""
        if self._ended is None:
            self._process.kill()
            self._process.join()
            out = self._out.read_text(encoding="utf-8", errors="replace")
            self._ended = CommandResult(self._process.exitcode or 0, out, self.said())
            self._files.close()
        return self._ended


def _work(
    entry: str, arguments: Sequence[str], environment: dict[str, str] | None, home: Path | None, *written: Path
) -> None:
    for number, file in enumerate(written, start=1):
        with file.open("wb") as stream:
            os.dup2(stream.fileno(), number)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    if home is not None:
        os.chdir(home)
    module, _, function = entry.partition(":")
    sys.argv = [entry, *arguments]
    getattr(import_module(module), function)()


preload()
