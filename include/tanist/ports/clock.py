"""Time: wall clock, monotonic clock, deadlines. The only source of time for everything above `kafka.wire`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.domain.names import EpochMs


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in monotonic seconds. Created once for each operation, passed to every blocking call, never extended."""

    at: float

    def left(self, now: float) -> float:
        """Seconds left at monotonic time `now`, never negative."""
        return max(0.0, self.at - now)


class Clock(Protocol):
    """Thread-safe."""

    def now(self) -> EpochMs:
        """Wall-clock time in ms since 1970; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back."""
        ...

    def worked(self) -> float:
        """Seconds for which the calling thread has had a processor: waiting is not in it; never goes back."""
        ...

    def deadline(self, seconds: float) -> Deadline:
        """The deadline `seconds` from now."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or less if this process is stopping."""
        ...
