"""How far a comparison goes: fixed once, before anything is read, while both logs go on growing.

    S   the source's last stable offset, asked first
    D   the copy's end, asked once it has reached S, or when it has had time enough
    S'  the source's last stable offset, asked after D, and its log start, which retention moves meanwhile

Everything below D must be in the source below S'; everything of the source below S must be in the copy. A topic that
has been promoted is compared up to S: what lies behind it was written by others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.names import DestinationOffset, SourceOffset

if TYPE_CHECKING:
    from tanist.domain.validation.job import PartitionRequest

SHIFT: Final = 100_000
"""Offsets. By more than this no copy is expected to be shifted against its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Offsets of one log."""

    start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets of one log that are compared: from `start` up to, not including, `until`."""

    start: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBounds:
    """`source`: ends as first asked, the log start as asked last; `later`: its last stable offset, asked last."""

    request: PartitionRequest
    source: LogBounds
    destination: LogBounds
    later: int

    @property
    def end(self) -> DestinationOffset:
        """Where the comparison ends, in the copy."""
        if self.request.promoted:
            return self._located(self.source.last_stable)
        return DestinationOffset(self.destination.last_stable)

    @property
    def compared(self) -> tuple[Range, Range]:
        """What is read of the source, and of the copy. What the copy lacks at its start is read: it is missing.

        Of a promoted topic it is not: retention is the destination's own business there.
        """
        start = max(self._located(self.source.start), self.destination.start)
        origin = self.request.map.origin
        first = self.copy_begins if self.request.promoted else self.source.start
        last = min(max(self.later, self.source.last_stable), origin(self.end))
        until = min(self.end, self.destination.last_stable)
        return Range(start=first, until=max(first, last)), Range(start=start, until=max(start, until))

    @property
    def surroundings(self) -> int:
        """How far the source is read: a copy that lacks something ends too early, with records from further on."""
        until = self.compared[0].until
        if self.request.promoted:
            return until
        return max(until, min(max(self.later, self.source.last_stable), until + SHIFT))

    @property
    def missing_at_start(self) -> int:
        """Offsets that the source still has at its start and the copy has not."""
        return max(0, self.destination.start - self._located(self.source.start))

    @property
    def copy_begins(self) -> SourceOffset:
        """The first source offset that the copy's log start leaves in the copy, and the source still has."""
        begins = (
            self.request.map.origin(DestinationOffset(self.destination.start))
            if self.missing_at_start
            else self.source.start
        )
        return SourceOffset(begins)

    @property
    def behind(self) -> int:
        """Source offsets, there when the comparison began, that the copy has not reached."""
        return max(
            0, self.source.last_stable - self.request.map.origin(DestinationOffset(self.destination.last_stable))
        )

    @property
    def past_end(self) -> int:
        """Offsets of the copy behind everything that its source has; of a promoted one that is as it should be."""
        if self.request.promoted:
            return 0
        return max(0, self.destination.last_stable - self._located(max(self.later, self.source.last_stable)))

    def _located(self, offset: int) -> DestinationOffset:
        return self.request.map.locate(SourceOffset(offset))
