"""Our side: a mirror made by the command line, and one `tanist fetcher run`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from bench.pair import DESTINATION, SOURCE
from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from bench.load import Load
    from bench.pair import Pair
    from tanist_testkit.sandbox.processes import Process

NAME: Final = "tanist"
MIRROR: Final = "bench"
_TANIST: Final = (sys.executable, "-m", "tanist.cli.main")
_CREATE_SECONDS: Final = 60.0


def start(pair: Pair, load: Load) -> Process:
    """Copy the topic of `load`; the copy bears the same name.

    Raises:
        ProcessFailed: the mirror could not be made, or the worker not be started.
    """
    where = ("--config", str(pair.config), "--destination", DESTINATION)
    _tanist("mirrors", "create", MIRROR, *where, "--source", SOURCE, "--topic", load.topic)
    return pair.guardian.spawn([*_TANIST, "fetcher", "run", *where], pair.home / "fetcher.log")


def copy_of(topic: str) -> str:
    """What the copy is called."""
    return topic


def _tanist(*arguments: str) -> None:
    command = [*_TANIST, *arguments, "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_CREATE_SECONDS, check=False)
    if done.returncode:
        raise ProcessFailed(f"tanist {' '.join(arguments)}: {done.stderr.strip()}")
