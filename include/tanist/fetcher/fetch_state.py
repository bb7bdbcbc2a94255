"""A fetcher thread's state of a partition, independent of the engine: phase, error, time of the next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic

from tanist.domain.errors import CouldNotTell, PartitionBroken, SourceTruncated, TanistError
from tanist.domain.recovery import SourceBehind
from tanist.domain.states import Finding
from tanist.fetcher.engines.engine import P, Phase

if TYPE_CHECKING:
    from tanist.domain.appending import Halt

FIRST_BACK_OFF: Final = 0.05  # seconds; doubled after each failure in a row
LAST_BACK_OFF: Final = 5.0
TRUNCATED_AFTER_SECONDS: Final = 30.0
"""A source that ends before the copied position for longer than this has lost records; a new leader may briefly."""


@dataclass(slots=True)
class PartitionFetchState(Generic[P]):
    """Only the fetcher's thread changes this. All times are monotonic seconds."""

    partition: P
    phase: Phase = Phase.RECOVER
    error: TanistError | None = None
    """The error that prevents copying."""
    failing_since: float | None = None
    failures: int = 0
    """Consecutive failures."""
    retry_at: float = 0.0

    def due(self, now: float) -> bool:
        """Whether it is time to recover."""
        return (
            self.phase is Phase.RECOVER
            and not self.partition.in_flight
            and not self.partition.assigned.draining
            and self.retry_at <= now
        )

    @property
    def fetchable(self) -> bool:
        """Whether more may be fetched."""
        partition = self.partition
        return self.phase is Phase.COPY and partition.halted is None and not partition.assigned.draining

    @property
    def finding(self) -> Finding | None:
        """The finding for the state machine."""
        if self.phase is Phase.BROKEN:
            return Finding.BROKEN
        if self.partition.assigned.draining and self.partition.quiet:
            return Finding.QUIET
        return Finding.ALIGNED if self.phase is Phase.COPY else None

    def recovered(self, outcome: Phase | TanistError, now: float) -> None:
        """A recovery has ended."""
        if isinstance(outcome, TanistError):
            self._failed(self._lasting(outcome, now), now)
            return
        self.phase = outcome
        if outcome is Phase.COPY:
            self.error, self.failing_since, self.failures = None, None, 0

    def halted(self, halt: Halt) -> None:
        """The engine has stopped copying it."""
        self.phase = Phase.RECOVER
        if halt.why is not None:
            self._failed(halt.why, halt.at)

    def _failed(self, why: TanistError, now: float) -> None:
        self.phase = Phase.BROKEN if isinstance(why, PartitionBroken) else Phase.RECOVER
        self.retry_at = now + min(LAST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.failing_since = now if self.error is None else self.failing_since
        self.error = why

    def _lasting(self, why: TanistError, now: float) -> TanistError:
        since = self.failing_since
        if isinstance(why, SourceBehind) and isinstance(self.error, CouldNotTell) and since is not None:
            seconds = now - since
            if seconds > TRUNCATED_AFTER_SECONDS:
                return SourceTruncated(f"{why.reason}, for {seconds:.0f} s")
        return why
