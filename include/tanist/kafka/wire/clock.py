"""The system's clocks."""

from __future__ import annotations

import threading
import time

from tanist.domain.names import EpochMs
from tanist.ports.clock import Deadline


class SystemClock:
    """`wait` ends early, at once, when `stop` is set: pass the process's stop event."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> EpochMs:
        return EpochMs(time.time_ns() // 1_000_000)

    def monotonic(self) -> float:
        return time.monotonic()

    def worked(self) -> float:
        return time.thread_time()

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(time.monotonic() + seconds)

    def wait(self, seconds: float) -> None:
        self._stop.wait(seconds)
