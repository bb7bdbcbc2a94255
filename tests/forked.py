"""The command line in forks: a test of a failover runs dozens of commands."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist_testkit.sandbox import forks

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

COMMANDS: Final = forks.COMMANDS
KILLED: Final = "tests.kafka.failover.killed:main"
forks.preload("tests.kafka.failover.killed")


@dataclass(frozen=True)
class Ended:
    """`code`: negative for the signal that killed it."""

    code: int
    out: str
    err: str


class Command:
    """`entry` (module:function) with `sys.argv` as given, in a process of its own that has begun."""

    def __init__(self, entry: str, arguments: Sequence[str], environment: Mapping[str, str], home: Path) -> None:
        self.arguments = tuple(arguments)
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
            self._out, self._err = (Path(file.name) for file in files)
            self._process = forks.FORKS.Process(
                target=_work, args=(entry, self.arguments, dict(environment), home, self._out, self._err)
            )
            self._process.start()
            self._files = stack.pop_all()

    def send(self, sign: signal.Signals) -> None:
        """Signal it; nothing where it has ended."""
        if self._process.is_alive() and self._process.pid:
            os.kill(self._process.pid, sign)

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def wait(self, seconds: float) -> Ended:
        """What it has left, once it has ended by itself; after `seconds` it is killed, and that is an error."""
        self._process.join(seconds)
        late = self._process.is_alive()
        self._process.kill()
        self._process.join()
        with self._files:
            ended = Ended(self._process.exitcode or 0, self._out.read_text(), self._err.read_text())
        assert not late, f"{self.arguments} took more than {seconds} s: {ended.err}"
        return ended


def run(entry: str, arguments: Sequence[str], environment: Mapping[str, str], home: Path, seconds: float) -> Ended:
    """A command from its begin to its end, within `seconds`."""
    return Command(entry, arguments, environment, home).wait(seconds)


def _work(entry: str, arguments: tuple[str, ...], environment: dict[str, str], home: Path, *told: Path) -> None:
    for number, file in enumerate(told, start=1):
        with file.open("wb") as written:
            os.dup2(written.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(home)
    forks.call(entry, arguments)
