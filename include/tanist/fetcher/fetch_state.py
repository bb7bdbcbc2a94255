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
SETTLED_AFTER_SECONDS: Final = 6.0
"""Copying without a halt for longer than the longest pause: what halted it before has passed."""
TRUNCATED_AFTER_SECONDS: Final = 30.0
"""A source that ends before the copied position for longer than this has lost records; a new leader may briefly."""


@dataclass(slots=True)
class PartitionFetchState(Generic[P]):
    """Only the fetcher's thread changes this. All times are monotonic seconds."""

    partition: P
    phase: Phase = Phase.RECOVER
    error: TanistError | None = None
    """The error that prevents copying; after a recovery, the one that halted it, until copying has made progress."""
    failing_since: float | None = None
    failures: int = 0
    """Consecutive failures."""
    retry_at: float = 0.0
    behind_since: float | None = None
    """Since when the source has been shorter than the copy; None: it is not."""
    copying_since: float | None = None
    resumed_at: int | None = None
    """Where copying resumed; None: not yet, as far as is reported."""
    _halted: bool = False
    """`error` has halted copying; else it prevented a recovery."""

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
            self._halted = False
            self._failed(self._lasting(outcome, now), now)
            return
        self.phase = outcome
        if outcome is Phase.COPY:
            self.behind_since, self.copying_since, self.resumed_at, self.failures = None, now, None, 0
            if not self._halted:
                self._clear()

    def halted(self, halt: Halt) -> None:
        """The engine has stopped copying it."""
        self.phase = Phase.RECOVER
        self._halted = halt.why is not None
        if halt.why is not None:
            self._failed(halt.why, halt.at)

    def noticed(self, position: int | None, now: float) -> bool:
        """Whether what halted copying before has passed. `position`: the source is copied up to here.

        Both logs can be compared although nothing can be appended, for example without WRITE. So a recovery alone is
        no success: something must have been copied since, or nothing has gone wrong for a while.
        """
        if self.phase is not Phase.COPY or self.error is None or self.copying_since is None:
            return False
        self.resumed_at = position if self.resumed_at is None else self.resumed_at
        moved = position is not None and self.resumed_at is not None and position > self.resumed_at
        if not moved and now - self.copying_since < SETTLED_AFTER_SECONDS:
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self.error, self.failing_since, self.failures, self._halted = None, None, 0, False

    def _failed(self, why: TanistError, now: float) -> None:
        self.phase = Phase.BROKEN if isinstance(why, PartitionBroken) else Phase.RECOVER
        self.retry_at = now + min(LAST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self.failing_since = now if self.error is None else self.failing_since
        self.error = why

    def _lasting(self, why: TanistError, now: float) -> TanistError:
        if isinstance(why, SourceBehind):
            self.behind_since = now if self.behind_since is None else self.behind_since
            seconds = now - self.behind_since
            if seconds > TRUNCATED_AFTER_SECONDS:
                return SourceTruncated(f"{why.reason}, for {seconds:.0f} s")
        elif not isinstance(why, CouldNotTell):
            self.behind_since = None
        return why
