"""Fetcher workers as real processes: `tanist fetcher run`, started, killed, frozen."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tanist.ports.clock import Clock
    from tanist_testkit.sandbox.processes import Guardian, Process

END_SECONDS: Final = 20.0
TANIST: Final = (sys.executable, "-m", "tanist.cli.main")
"""The command `tanist` of this installation, whatever the PATH says."""


class Workers:
    """By id. They end when this process ends, and when the guardian is closed."""

    def __init__(
        self, guardian: Guardian, directory: Path, command: Sequence[str], clock: Clock, *, bound: bool = True
    ) -> None:
        """`command`: what follows `tanist fetcher run --id ID`. Logs go to `directory`. `clock`: to wait for ends.

        `bound`: see `Guardian.spawn`.
        """
        self._guardian = guardian
        self._directory = directory
        self._command = tuple(command)
        self._clock, self._bound = clock, bound
        self._processes: dict[str, Process] = {}
        self._ended: set[str] = set()

    def start(self, worker: str, *more: str) -> int:
        """Its process id. `more`: options that replace those of the command. Raises ProcessFailed."""
        argv = [*TANIST, "fetcher", "run", *self._command, "--id", worker, *more]
        self._processes[worker] = self._guardian.spawn(argv, self.log(worker), bound=self._bound)
        self._ended.discard(worker)
        return self._processes[worker].pid

    def log(self, worker: str) -> Path:
        """Everything that it has written, through all of its starts."""
        return self._directory / f"fetcher-{worker}.log"

    def pids(self) -> dict[str, int]:
        """Of those that were started and not ended by us."""
        return {worker: process.pid for worker, process in self._processes.items() if worker not in self._ended}

    def kill(self, worker: str) -> int:
        """SIGKILL; returns its process id when it is gone."""
        process = self._processes[worker]
        self._ended.add(worker)
        process.send(signal.SIGKILL)
        process.wait(self._clock.deadline(END_SECONDS))
        return process.pid

    def freeze(self, worker: str) -> None:
        """SIGSTOP: its connections stay open, it knows nothing of the time that passes."""
        self._processes[worker].send(signal.SIGSTOP)

    def thaw(self, worker: str) -> None:
        """SIGCONT: it goes on where it was."""
        self._processes[worker].send(signal.SIGCONT)

    def gave_up(self) -> dict[str, str]:
        """The last line of the log of each that has ended and that nobody has ended."""
        gone = (w for w, process in self._processes.items() if w not in self._ended and not process.alive)
        return {worker: self._last_line(worker) for worker in gone}

    def check_alive(self) -> None:
        """Raises ProcessFailed when one has ended that nobody has ended."""
        for worker, words in self.gave_up().items():
            raise ProcessFailed(f"worker {worker} has ended by itself: {words}, see {self.log(worker)}")

    def _last_line(self, worker: str) -> str:
        lines = self.log(worker).read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "without a word"
