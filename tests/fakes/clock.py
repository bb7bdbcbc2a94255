"""Time that passes only when somebody waits, or when a test says so."""

from __future__ import annotations

from tanist.domain.names import EpochMs
from tanist.ports.clock import Deadline


class JumpingClock:
    def __init__(self, monotonic: float = 1_000.0, epoch_ms: int = 1_700_000_000_000) -> None:
        self._monotonic, self._epoch_ms = monotonic, epoch_ms
        self._worked = 0.0

    def jump(self, seconds: float) -> None:
        """As if this process had been frozen for so long."""
        self._monotonic += seconds
        self._epoch_ms += round(seconds * 1000)

    def work(self, seconds: float) -> None:
        """As if a thread had computed for so long."""
        self._worked += seconds
        self.jump(seconds)

    def worked(self) -> float:
        return self._worked

    def now(self) -> EpochMs:
        return EpochMs(self._epoch_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(self._monotonic + seconds)

    def wait(self, seconds: float) -> None:
        self.jump(seconds)
