"""The command line in the test's own process: for commands that nobody kills, freezes or runs side by side.

A process of its own costs 0.1 to 0.4 s of processor (`tanist_testkit.sandbox.forks`).
"""

from __future__ import annotations

import io
import os
import sys
import threading
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from typing import TYPE_CHECKING

import typer.main

from tanist.cli.app import run
from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.forks import CommandResult
from tests.quoted import left_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

typer.main.get_command = cache(typer.main.get_command)
"""A process builds the command line once. This one runs many: a tenth of their processor time."""


def executed(
    arguments: Sequence[str], environment: Mapping[str, str], home: Path, *, forked_seconds: float
) -> CommandResult:
    """What `tanist` leaves with these arguments, in this environment, and with `home` as its working folder.

    A process has one of each: the command of a thread other than the main one is forked, and has `forked_seconds`.
    """
    if threading.current_thread() is not threading.main_thread():
        return forks.Command(forks.COMMANDS, arguments, environment, home).wait(forked_seconds)
    own = {name: os.environ.get(name) for name, value in environment.items() if os.environ.get(name) != value}
    argv, out, err = sys.argv, io.StringIO(), io.StringIO()
    os.environ.update({name: environment[name] for name in own})
    sys.argv = ["tanist", *arguments]
    code: object = 0
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(home):
            run()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = argv
        for name, value in own.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    assert code is None or isinstance(code, int)
    assert left_in(out.getvalue() + err.getvalue()) == []
    return CommandResult(code or 0, out.getvalue(), err.getvalue())
