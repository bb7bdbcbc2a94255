"""Our side: a mirror made by the command line, and one `tanist fetcher run`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from bench.pair import DESTINATION, SOURCE
from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load import Load
    from bench.pair import Pair
    from tanist_testkit.sandbox.processes import Process

NAME: Final = "tanist"
MIRROR: Final = "bench"
_TANIST: Final = (sys.executable, "-m", "tanist.cli.main")
_CREATE_SECONDS: Final = 100.0
"""Until a broker leads the thousands of partitions that some benchmarks make, while they are written to."""
_COMMAND_SECONDS: Final = 300.0


def start(pair: Pair, load: Load, *, options: Sequence[str] = ()) -> Process:
    """Copy the topic of `load`; the copy bears the same name. `options`: of the mirror.

    Raises:
        ProcessFailed: the mirror could not be made, or the worker not be started.
    """
    where = ("--source", SOURCE, "--topic", load.topic, "--yes", "--timeout", f"{_CREATE_SECONDS:.0f}s")
    tanist(pair, DESTINATION, "mirrors", "create", MIRROR, *where, *options)
    return fetcher(pair, DESTINATION)


def fetcher(pair: Pair, at: str) -> Process:
    """A fetcher of the destination `at`.

    Raises:
        ProcessFailed: it could not be started.
    """
    where = ("--config", str(pair.config), "--destination", at)
    return pair.guardian.spawn([*_TANIST, "fetcher", "run", *where], pair.home / f"fetcher-{at}.log")


def copy_of(topic: str) -> str:
    """What the copy is called."""
    return topic


def tanist(pair: Pair, at: str, *arguments: str) -> str:
    """What a command prints, with the destination `at`.

    Raises:
        ProcessFailed: it failed, or took longer than five minutes.
    """
    command = [*_TANIST, *arguments, "--config", str(pair.config), "--destination", at]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        raise ProcessFailed(f"tanist {' '.join(arguments)}: still running after {_COMMAND_SECONDS:g} s") from late
    if done.returncode:
        raise ProcessFailed(f"tanist {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
