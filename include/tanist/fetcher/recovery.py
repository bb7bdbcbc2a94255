"""Reading both logs and going on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.anchoring import SourceBehind, anchor
from tanist.domain.errors import CouldNotTell, SourceTruncated, Stopped, TanistError, TimedOut, Unreachable
from tanist.fetcher.evidence import WireEvidence, ids_and_ends
from tanist.wire.leaders import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from tanist.domain.anchoring import CopyEnds
    from tanist.domain.errors import PartitionBroken
    from tanist.fetcher.copy import PartitionCopy
    from tanist.fetcher.runs import OffsetRuns
    from tanist.ports.clock import Clock, Deadline
    from tanist.wire.router import Router

RECOVERY_SECONDS: Final = 5.0
"""For one partition: a broker that is frozen must not hold up the lane much longer, the others wait behind it."""
TRUNCATED_AFTER_SECONDS: Final = 30.0
"""A source that shows less than was copied for longer than this has lost it; for a moment a new leader may."""


class Recovery:
    """Owned by the lane's thread."""

    def __init__(
        self,
        routers: tuple[Router, Router],
        runs: OffsetRuns,
        clock: Clock,
        gate: Callable[[Deadline], Callable[[str], PartitionBroken | None]],
    ) -> None:
        """`gate`: reads the state topics anew, and tells of each topic why it may not be copied."""
        self._routers = routers
        self._runs = runs
        self._clock = clock
        self._gate = gate

    def recover(self, copies: Sequence[PartitionCopy]) -> None:
        """Bring each copy to COPY or ALIGN, or note why not. A dead cluster is asked once, not once a partition."""
        if not copies:
            return
        by = self._clock.deadline(RECOVERY_SECONDS)
        waiting = list(copies)
        try:
            barred = self._gate(by)
            seen = ids_and_ends(self._routers[1], [copy.partition for copy in copies], by)
            while waiting:
                at = waiting[-1].partition
                by = self._clock.deadline(RECOVERY_SECONDS)
                self._recover(waiting[-1], barred(at.topic) or seen[at], by)
                waiting.pop()
        except Stopped:
            raise
        except TanistError as why:
            for copy in waiting:
                copy.recover(why, self._clock.monotonic())

    def _recover(self, copy: PartitionCopy, seen: tuple[UUID | None, CopyEnds] | TanistError, by: Deadline) -> None:
        """Raises only what concerns all: a cluster that does not answer."""
        try:
            copy.topic_id, ends = value(seen)
            self._go_on(copy, ends, by)
        except (Stopped, TimedOut, Unreachable):
            raise
        except TanistError as why:
            copy.recover(self._worse(copy, why), self._clock.monotonic())

    def _go_on(self, copy: PartitionCopy, ends: CopyEnds, by: Deadline) -> None:
        evidence = WireEvidence(copy.partition, ends, self._routers, self._runs, by)
        found = anchor(evidence, copy.writers, copy.suspect_from)
        offsets = evidence.map_read or self._runs.read(copy.partition, by)
        if found.runs:
            offsets = self._runs.write(copy.assigned, found.runs, "recovery", by)
        copy.copy_start = ends.start
        copy.enter_at = evidence.source_start().log_start
        if found.align is not None and found.sequence:  # so we have written here before
            copy.note = f"the source deleted offsets up to {copy.enter_at} before they were copied"
        copy.go_on(found, offsets)

    def _worse(self, copy: PartitionCopy, why: TanistError) -> TanistError:
        since = copy.failing_since
        if isinstance(why, SourceBehind) and isinstance(copy.error, CouldNotTell) and since is not None:
            seconds = self._clock.monotonic() - since
            if seconds > TRUNCATED_AFTER_SECONDS:
                return SourceTruncated(f"{why.reason}, for {seconds:.0f} s")
        return why
