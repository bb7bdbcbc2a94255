"""The bounds of a comparison, fixed before anything is read, because both logs grow meanwhile.

    S   the source's last stable offset, read first
    D   the mirror partition's end, read once it has reached S, or after a timeout
    S'  the source's last stable offset, read after D, and its log start, which retention moves meanwhile

All records below D must be in the source below S'; all records of the source below S must be in the mirror partition. A
failed-over topic is compared up to S: later records were written by other producers. If its failover has reserved
offsets, up to their start: behind it only the old source has records. A copy with offsets of its own is compared up to
where its map was known, before S was read; S is where the source ended before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.log_ends import LogEnds, Span
from tanist.domain.names import DestinationOffset, SourceOffset

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.validation.job import PartitionRequest

SHIFT: Final = 100_000
"""Offsets: the largest expected shift between a mirror partition and its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBounds:
    """`source`: its ends as first read, its log start as last read; `later`: its last stable offset, as last read.

    `topic_ids` of source and mirror topic, as they were before the ends were read; None: not told (below Kafka 2.8).
    """

    request: PartitionRequest
    source: LogEnds
    destination: LogEnds
    later: int
    topic_ids: tuple[UUID | None, UUID | None] = (None, None)

    @property
    def end(self) -> DestinationOffset:
        """Where the comparison ends, in destination offsets."""
        if self.request.promoted:
            end = self._located(self.source.last_stable)
            return end if self.request.old_end is None else DestinationOffset(min(end, self.request.old_end))
        if self.request.until is not None:
            return DestinationOffset(min(self.destination.last_stable, self._located(self.request.until)))
        return DestinationOffset(self.destination.last_stable)

    @property
    def source_begins(self) -> int:
        """The first source offset that the copy can have."""
        return max(self.source.start, self.request.source_start)

    @property
    def compared(self) -> tuple[Span[int], Span[int]]:
        """The ranges to read of source and mirror partition. Records missing at the start count as missing.

        Not for a failed-over topic: there the destination's own retention applies.
        """
        start = max(self._located(self.source_begins), self.destination.start)
        origin = self.request.map.origin
        first = self.copy_begins if self.request.promoted else self.source_begins
        last = min(max(self.later, self.source.last_stable), origin(self.end))
        until = min(self.end, self.destination.last_stable)
        return Span(first, max(first, last)), Span(start, max(start, until))

    @property
    def surroundings(self) -> int:
        """The source offset up to which to read: if records are missing, the mirror partition ends with later ones."""
        until = self.compared[0].end
        if self.request.promoted:
            return until
        return max(until, min(max(self.later, self.source.last_stable), until + SHIFT))

    @property
    def missing_at_start(self) -> int:
        """Offsets that the source still has at its start, and that the mirror partition lacks."""
        return max(0, self.destination.start - self._located(self.source_begins))

    @property
    def copy_begins(self) -> SourceOffset:
        """The first source offset that both logs still have."""
        begins = (
            self.request.map.origin(DestinationOffset(self.destination.start))
            if self.missing_at_start
            else self.source_begins
        )
        return SourceOffset(begins)

    @property
    def behind(self) -> int:
        """Source offsets that existed when the comparison began and are not copied yet."""
        wanted, known = self.source.last_stable, self.request.source_end
        copied = self.request.map.origin(DestinationOffset(self.destination.last_stable))
        return max(0, (wanted if known is None else min(wanted, known)) - copied)

    @property
    def only_old_source(self) -> int:
        """Offsets of the old source that its failover has reserved: nobody has copied them, nor used them again."""
        if self.request.old_end is None or self.request.reserve_end is None:
            return 0
        return max(0, min(self._located(self.source.last_stable), self.request.reserve_end) - self.request.old_end)

    @property
    def reused(self) -> int:
        """Offsets of the old source behind what its failover has reserved: the new primary uses them, too."""
        end = self.request.reserve_end
        return 0 if end is None else max(0, self._located(self.source.last_stable) - end)

    @property
    def past_end(self) -> int:
        """Offsets of the mirror partition past the end of its source; expected for a failed-over topic."""
        if self.request.promoted:
            return 0
        return max(0, self.destination.last_stable - self._located(max(self.later, self.source.last_stable)))

    def _located(self, offset: int) -> DestinationOffset:
        return self.request.map.locate(SourceOffset(offset))
