"""`python -m tanist.spark_submit.bound OWNERS FOLDER COMMAND...` runs COMMAND for its owners, and ends it with them.

OWNERS are pids, separated by commas; the first one is the parent.

    an owner has ended          COMMAND is killed with all its children that are still there, FOLDER is removed
    COMMAND has ended           the same; its exit code is ours
    SIGTERM, SIGINT, SIGHUP     COMMAND gets SIGTERM, some seconds later SIGKILL; then the same
    kill -9 of this process     the kernel kills COMMAND (Linux); whoever makes the next folder removes this one

spark-submit becomes the JVM in the very same process. With the JVM ends the job's Python (`tanist.spark.main`), and
with the pipe to the JVM end its workers.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.kafka.wire.parent import ORPHANED, bind_to
from tanist.spark_submit.scratch import held

if TYPE_CHECKING:
    from collections.abc import Sequence

_GRACE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0


def main() -> int:
    """The exit code of the command, as a shell gives it."""
    owners, folder, command = [int(pid) for pid in sys.argv[1].split(",")], Path(sys.argv[2]), sys.argv[3:]
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda number, _: sys.exit(128 + number))
    if os.getppid() != owners[0]:
        shutil.rmtree(folder, ignore_errors=True)
        return ORPHANED
    guard = os.getpid()
    with held(folder):
        child = subprocess.Popen(
            command,
            start_new_session=True,
            preexec_fn=lambda: bind_to(guard),  # noqa: PLW1509  # one thread only
        )
        first = signal.SIGTERM
        try:
            if not _outlived(child, owners):
                first = signal.SIGKILL
        finally:
            _end(child, first)
            shutil.rmtree(folder, ignore_errors=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _outlived(child: subprocess.Popen[Any], owners: Sequence[int]) -> bool:
    """Waits for the first of them that ends; whether it was the child."""
    if not hasattr(os, "pidfd_open"):
        while child.poll() is None and all(map(_lives, owners)):
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_SECONDS)
        return child.poll() is not None
    poll = select.poll()
    for pid in (child.pid, *owners):
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)
        except (ProcessLookupError, FileNotFoundError):  # ENOENT: Linux is just removing it
            return pid == child.pid
    poll.poll()
    return child.poll() is not None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end(child: subprocess.Popen[Any], first: signal.Signals) -> None:
    """The session that it was started in: the JVM, its driver, their workers."""
    for sign in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # the end is not to be disturbed
        signal.signal(sign, signal.SIG_IGN)
    if child.poll() is None and first is not signal.SIGKILL:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, first)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    sys.exit(main())
