"""The command line in processes of their own that begin at once: forked from one that has imported it already.

Importing takes most of a second of processor; a test of a failover runs dozens of commands.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS: Final = "tanist.cli.app:run"
KILLED: Final = "tests.failover.killed:main"
_LATER: Final = ("tanist.clusters", "tanist.wire")
"""What commands import only when they are at work."""


def _imported() -> list[str]:
    later = (f"{room}.{found.name}" for room in _LATER for found in iter_modules(import_module(room).__path__))
    return ["tanist.cli.app", "tests.failover.killed", "typer._adapters", *later]


_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_imported())


@dataclass(frozen=True)
class Ended:
    """`code`: negative for the signal that killed it."""

    code: int
    out: str
    err: str


def run(entry: str, arguments: Sequence[str], environment: Mapping[str, str], home: Path, seconds: float) -> Ended:
    """`entry` (module:function) with `sys.argv` as given, in a process of its own that ends within `seconds`."""
    with ExitStack() as stack:
        out, err = (Path(stack.enter_context(tempfile.NamedTemporaryFile()).name) for _ in range(2))
        process = _FORKS.Process(target=_work, args=(entry, tuple(arguments), dict(environment), home, out, err))
        process.start()
        process.join(seconds)
        late = process.is_alive()
        process.kill()
        process.join()
        assert not late, f"{arguments} took more than {seconds} s: {err.read_text()}"
        return Ended(process.exitcode or 0, out.read_text(), err.read_text())


def _work(entry: str, arguments: tuple[str, ...], environment: dict[str, str], home: Path, *told: Path) -> None:
    for number, file in enumerate(told, start=1):
        with file.open("wb") as written:
            os.dup2(written.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(home)
    module, _, function = entry.partition(":")
    sys.argv = [entry, *arguments]
    getattr(import_module(module), function)()
