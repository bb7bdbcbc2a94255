"""The command line in processes of their own that begin at once: forked from one that has imported it already.

Importing takes most of a second of processor; a demo, or a test of a failover, runs dozens of commands.
"""

from __future__ import annotations

import multiprocessing
import sys
from importlib import import_module
from multiprocessing import forkserver
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = "tanist.cli.app:run"
FORKS: Final = multiprocessing.get_context("forkserver")
"""Its processes are forks of one that has imported the command line."""
_LATER: Final = ("tanist.kafka.adapters", "tanist.kafka.wire")
"""What commands import only when they are at work."""


def preload(*more: str) -> None:
    """Before the first fork: they are to find `more` modules imported, too."""
    later = (f"{room}.{found.name}" for room in _LATER for found in iter_modules(import_module(room).__path__))
    FORKS.set_forkserver_preload(["tanist.cli.app", *more, "typer._adapters", *later])


def prepare() -> None:
    """Imports it now, aside, rather than when the first command begins."""
    forkserver.ensure_running()


def call(entry: str, arguments: Sequence[str]) -> None:
    """In a fork: `entry` (module:function), as if its command line were `arguments`."""
    module, _, function = entry.partition(":")
    sys.argv = [entry, *arguments]
    getattr(import_module(module), function)()


preload()
