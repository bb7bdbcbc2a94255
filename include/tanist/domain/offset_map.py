"""The offset map: relates source offsets to destination offsets.

A partition with identical offsets has no ranges. Where offsets differ (a surplus gap marker, a log with holes) the map
is a list of ranges, each written to `__mirror_offsets` before its first record is sent, so that a translation is exact
at any lag, also if the source is down.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.names import DestinationOffset, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """From `source` on, up to the next range, source offset minus destination offset is constant."""

    source: SourceOffset
    destination: DestinationOffset

    @property
    def shift(self) -> int:
        """How many offsets the destination is ahead (negative: behind)."""
        return self.destination - self.source


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Ranges, `source` strictly increasing; before the first range offsets are identical.

    Build it with `of`: a range of a worker that died may have been written twice. `until`: what the map knows ends
    before this offset, which is where the copy goes on; None: it knows all, as offsets without a range are identical.
    `unread`: why it is not known how far the copy goes on behind `until`; empty: it ends there.
    """

    runs: tuple[OffsetRange, ...] = ()
    until: SourceOffset | None = None
    unread: str = ""

    @classmethod
    def of(cls, runs: Iterable[OffsetRange], until: SourceOffset | None = None, unread: str = "") -> OffsetMap:
        """The map of `runs` (in any order). If two have the same source offset, the larger destination offset wins.

        The destination's end never moves back, so the largest one was written last.
        """
        latest: dict[SourceOffset, DestinationOffset] = {}
        for run in sorted(runs):
            latest[run.source] = run.destination
        return cls(tuple(OffsetRange(s, d) for s, d in sorted(latest.items())), until, unread)

    def with_range(self, run: OffsetRange) -> OffsetMap:
        """This map with one more range."""
        return OffsetMap.of((*self.runs, run), self.until, self.unread)

    @property
    def is_mapped(self) -> bool:
        """Whether offsets are the copy's own: where no range says so, nothing is identical."""
        return self.until is not None

    def locate(self, position: SourceOffset) -> DestinationOffset:
        """The destination offset, actual or expected, of the first record at or after `position`.

        Behind `until` it is that of the next record that is copied.
        """
        position = position if self.until is None else min(position, self.until)
        i = bisect_right(self.runs, position, key=lambda run: run.source)
        inside = DestinationOffset(position if i == 0 else position + self.runs[i - 1].shift)
        # Between two runs the source spends offsets that the copy does not (or the reverse): nothing to read there,
        # so reading goes on where the next run begins.
        return min(inside, self.runs[i].destination) if i < len(self.runs) else inside

    def origin(self, offset: DestinationOffset) -> SourceOffset:
        """The source offset of the record at destination `offset`; the inverse of `locate` on records.

        Of what is no record of the source (a marker, or what an aborted attempt has left) that of the next one.
        """
        i = bisect_right(self.runs, offset, key=lambda run: run.destination)
        if i == 0 and self.is_mapped:
            return SourceOffset(0)  # records that the mirror topic had before it was one
        ends = [self.runs[i].source] if i < len(self.runs) else [] if self.until is None else [self.until]
        return min([SourceOffset(max(0, offset - (self.runs[i - 1].shift if i else 0))), *ends])

    def begin_of(self, position: SourceOffset) -> SourceOffset:
        """The source offset where the range of `position` begins; 0: it lies before the first one."""
        run = self._range_of(position)
        return SourceOffset(0) if run is None else run.source

    def shift_at(self, position: SourceOffset) -> int:
        """By how many offsets the destination is ahead at `position`; 0: identical here."""
        run = self._range_of(position)
        return 0 if run is None else run.shift

    def _range_of(self, position: SourceOffset) -> OffsetRange | None:
        i = bisect_right(self.runs, position, key=lambda run: run.source)
        return self.runs[i - 1] if i else None
