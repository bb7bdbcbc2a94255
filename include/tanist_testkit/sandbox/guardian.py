"""Starts processes on behalf of an owner, and ends them when the owner is gone, however it went.

Run as a script by `processes`; it imports nothing of ours so that it starts in a few hundredths of a
second. It sits in a session of its own: a Ctrl-C at the terminal reaches the owner, never the guardian.

    owner gone (end of its pipe, or its pidfd)      every child is killed, every temporary directory removed
    guardian gone                                   every bound child is killed (by the kernel, where it can)
    owner says "release"                            the guardian leaves, its unbound children live on

A child is killed with its whole session: workers that it has forked must not go on without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG: Final = 1
_ROUNDS: Final = 500
_ROUND: Final = 0.01  # seconds


def _bound_to_parent() -> Callable[[], None] | None:
    """What a child runs before exec, so that the kernel kills it when its parent ends. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def bind() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return bind


def _spawn(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    with open(request["log"], "ab") as log:  # noqa: PTH123 -- pathlib would double the start-up time
        return subprocess.Popen(
            request["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_bound_to_parent() if request["bound"] else None,  # noqa: PLW1509 -- one thread only
        )


def _session(leader: int) -> list[int]:
    """Every living process of the session that `leader` has begun, itself included. Empty where there is no /proc."""
    found = []
    for name in os.listdir("/proc") if sys.platform.startswith("linux") else ():  # noqa: PTH208 -- no pathlib here
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(name)}/stat", "rb") as stat:  # noqa: PTH123
            state, _, _, session = stat.read().rpartition(b")")[2].split()[:4]
            if state not in b"ZX" and int(session) == leader:
                found.append(int(name))
    return found


def kill_session(leader: int) -> None:
    """SIGKILL for the process that has begun a session, if it still lives, and for all that it has left there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for _ in range(_ROUNDS):
        left = _session(leader)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(_ROUND)


def _kill_all(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        kill_session(child.pid)
        child.wait()


def _forget_ended(children: list[subprocess.Popen[bytes]]) -> None:
    for child in tuple(children):
        if child.poll() is not None:
            children.remove(child)
            kill_session(child.pid)


def _remove(directories: list[str]) -> None:
    import shutil  # noqa: PLC0415 -- not while the owner waits for us to start

    for directory in directories:
        for _ in range(_ROUNDS):
            shutil.rmtree(directory, ignore_errors=True)
            if not os.path.lexists(directory):
                break
            time.sleep(_ROUND)  # somebody who is being killed has written one more file


def _answer(children: list[subprocess.Popen[bytes]], temporary: list[str], line: bytes) -> bytes:
    request = json.loads(line)
    if "temporary" in request:
        temporary.append(request["temporary"])
        return b"{}\n"
    try:
        child = _spawn(request)
    except OSError as problem:
        return json.dumps({"error": str(problem)}).encode() + b"\n"
    children.append(child)
    return json.dumps({"pid": child.pid}).encode() + b"\n"


def _serve(owner: int, children: list[subprocess.Popen[bytes]], temporary: list[str]) -> bool:
    """Until the owner is gone (False) or has released us (True)."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(owner), select.POLLIN)  # a forked child of the owner may keep the pipe open
    pending = b""
    while True:
        if any(fd != 0 for fd, _ in poll.poll()):
            return False
        received = os.read(0, 65536)
        if not received:
            return False
        *lines, pending = (pending + received).split(b"\n")
        _forget_ended(children)
        for line in lines:
            if line == b"release":
                return True
            os.write(1, _answer(children, temporary, line))


def main() -> None:
    """`argv[1]` is the owner's pid. Requests come as lines of JSON on standard input."""
    children: list[subprocess.Popen[bytes]] = []
    temporary: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    released = False
    try:
        with contextlib.suppress(OSError):
            released = _serve(int(sys.argv[1]), children, temporary)
    finally:
        if not released:
            _kill_all(children)
            _remove(temporary)


if __name__ == "__main__":
    main()
