"""Processes that outlive nobody, named by pid and start time so that a recycled pid is never hit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.ports.clock import Deadline

_GUARDIAN = Path(__file__).with_name("guardian.py")
_POLL = 0.02  # seconds


def _linux_start(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # from the state on: the command's name may hold anything
    return None if fields[0] in "ZX" else f"{_boot()}/{fields[19]}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _other_start(pid: int) -> str | None:
    asked = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = asked.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else " ".join(started.split())


def started_at(pid: int) -> str | None:
    """An opaque text that differs between two processes which had the same pid; None: no such process, or a zombie."""
    return _linux_start(pid) if sys.platform.startswith("linux") else _other_start(pid)


@dataclass(frozen=True, slots=True)
class Process:
    """One process, and no later one that got its pid."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return started_at(self.pid) == self.started

    def send(self, sign: signal.Signals) -> bool:
        """Signals it; False: it had ended before."""
        try:
            return self._send_by_handle(sign) if hasattr(os, "pidfd_open") else self._send_by_pid(sign)
        except (ProcessLookupError, FileNotFoundError):  # ENOENT: Linux is just removing it
            return False

    def _send_by_handle(self, sign: signal.Signals) -> bool:
        handle = os.pidfd_open(self.pid)
        try:
            if not self.alive:
                return False
            signal.pidfd_send_signal(handle, sign)
        finally:
            os.close(handle)
        return True

    def _send_by_pid(self, sign: signal.Signals) -> bool:
        if not self.alive:
            return False
        os.kill(self.pid, sign)
        return True

    def wait(self, deadline: Deadline) -> bool:
        """Whether it has ended by `deadline`."""
        while self.alive:
            if not deadline.left(time.monotonic()):
                return False
            time.sleep(_POLL)
        return True


class Guardian:
    """Starts processes that end when this Python process ends, even by SIGKILL, whatever thread asked for them.

    Unbound ones (`bound=False`) may be let go with `release`; until then they are guarded as well.
    """

    def __init__(self) -> None:
        self._helper: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def spawn(self, argv: Sequence[str], log: Path, *, bound: bool = True) -> Process:
        """Starts `argv` in a session of its own, output appended to `log`.

        Raises:
            ProcessFailed: it could not be started.
        """
        request = {"argv": list(argv), "log": str(log), "bound": bound}
        with self._lock:
            answer = self._ask(json.dumps(request).encode() + b"\n")
        if "error" in answer:
            raise ProcessFailed(f"{argv[0]} could not be started: {answer['error']}")
        return Process(answer["pid"], started_at(answer["pid"]) or "ended")

    def remove_at_end(self, directory: Path) -> None:
        """Has `directory` removed after the processes have been killed, unless they are released."""
        with self._lock:
            self._ask(json.dumps({"temporary": str(directory)}).encode() + b"\n")

    def release(self) -> None:
        """Lets every unbound process live on, and ends the guard."""
        self._leave(b"release\n")

    def close(self) -> None:
        """Kills what is still running. Can be called again."""
        self._leave(b"")

    def _ask(self, line: bytes) -> dict[str, Any]:
        self._helper = self._helper or self._start()
        assert self._helper.stdin is not None  # noqa: S101 -- both are pipes
        assert self._helper.stdout is not None  # noqa: S101
        try:
            self._helper.stdin.write(line)
            answer = self._helper.stdout.readline()
        except OSError:
            answer = b""
        return json.loads(answer or b'{"error": "the guardian process has ended"}')  # type: ignore[no-any-return]

    def _leave(self, last_word: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            helper, self._helper = self._helper, None
            if helper is None:
                return
            with helper:  # closes both pipes, waits
                assert helper.stdin is not None  # noqa: S101 -- a pipe
                helper.stdin.write(last_word)

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARDIAN), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
