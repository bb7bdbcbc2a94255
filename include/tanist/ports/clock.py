"""Time as the rest of the house sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.domain.names import EpochMs


@dataclass(frozen=True, slots=True)
class Deadline:
    """Monotonic seconds. Made once at the edge, handed down into every blocking call, never extended."""

    at: float

    def left(self, now: float) -> float:
        """Seconds left at monotonic time `now`, never negative."""
        return max(0.0, self.at - now)


class Clock(Protocol):
    def now(self) -> EpochMs: ...
    def monotonic(self) -> float: ...
    def deadline(self, seconds: float) -> Deadline: ...
    def wait(self, seconds: float) -> None: ...
