"""The offset map: relates source offsets to destination offsets.

A partition with identical offsets has no ranges. Where offsets differ (a surplus gap marker, a log with holes) the map
is a list of ranges, each written to `__mirror_offsets` before its first record is sent, so that a translation is exact
at any lag, also if the source is down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.names import DestinationOffset, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
class AnchoredSpan:
    """What lies between two anchors, `start` and `until`.

    `numbers`: from which source offset on how many of its records are before; the last one is `until`, and all records.
    Empty: what was on record of it is lost, so no walk of the copy tells more.
    """

    start: OffsetRange
    until: OffsetRange
    numbers: tuple[tuple[SourceOffset, int], ...]

    @property
    def records(self) -> int:
        """How many records of the source it has. Not of a span that is lost."""
        return self.numbers[-1][1]

    @property
    def is_lost(self) -> bool:
        """Whether nothing is on record of what lies in it."""
        return not self.numbers

    @property
    def is_known(self) -> bool:
        """Whether nothing but records lies in it, or no record: then no walk is needed."""
        return not self.is_lost and self.records in {0, self.until.destination - self.start.destination}

    def holds(self, position: SourceOffset) -> bool:
        """Whether a position lies between the anchors, at neither of them."""
        return self.start.source < position < self.until.source


BEFORE_ALL: Final = OffsetRange(SourceOffset(-1), DestinationOffset(0))
"""The start of a span that begins before the first offset of both logs."""
LOST: Final = "its offset ranges are lost: state topics that were restored or rebuilt do not have them"


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Ranges, `source` strictly increasing; before the first range offsets are identical.

    Build it with `of`: a range of a worker that died may have been written twice. `until`: what the map knows ends
    before this offset, which is where the copy goes on; None: it knows all, as offsets without a range are identical.
    `unread`: why it is not known how far the copy goes on behind `until`; empty: it ends there. `unwalked`: spans of
    which only the ends are known, by their start; `why_not`: why no walk has told more; empty: there was none.
    """

    runs: tuple[OffsetRange, ...] = ()
    until: SourceOffset | None = None
    unread: str = ""
    unwalked: tuple[AnchoredSpan, ...] = ()
    why_not: Mapping[AnchoredSpan, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        runs: Iterable[OffsetRange],
        until: SourceOffset | None = None,
        unread: str = "",
        unwalked: Iterable[AnchoredSpan] = (),
    ) -> OffsetMap:
        """The map of `runs` (in any order). If two have the same source offset, the larger destination offset wins.

        The destination's end never moves back, so the largest one was written last.
        """
        latest: dict[SourceOffset, DestinationOffset] = {}
        for run in sorted(runs):
            latest[run.source] = run.destination
        spans = tuple(sorted(unwalked, key=lambda each: (each.start, each.until)))
        return cls(tuple(OffsetRange(s, d) for s, d in sorted(latest.items())), until, unread, spans)

    def with_range(self, run: OffsetRange) -> OffsetMap:
        """This map with one more range."""
        return OffsetMap.of((*self.runs, run), self.until, self.unread, self.unwalked)

    def walked(self, found: Mapping[AnchoredSpan, tuple[OffsetRange, ...] | str]) -> OffsetMap:
        """This map with what walks have found in spans: their ranges, or why they cannot be told."""
        ranges = {span: each for span, each in found.items() if not isinstance(each, str)}
        left = [span for span in self.unwalked if span not in ranges]
        runs = (*self.runs, *(run for each in ranges.values() for run in each))
        why = {span: each for span, each in found.items() if isinstance(each, str)}
        return replace(OffsetMap.of(runs, self.until, self.unread, left), why_not={**self.why_not, **why})

    def unwalked_at(self, position: SourceOffset) -> AnchoredSpan | None:
        """The span in which a position lies of which only the ends are known; None: all is known there."""
        i = bisect_left(self.unwalked, position, key=lambda span: span.start.source) - 1
        return self.unwalked[i] if i >= 0 and self.unwalked[i].holds(position) else None

    @property
    def is_mapped(self) -> bool:
        """Whether offsets are the copy's own: where no range says so, nothing is identical."""
        return self.until is not None

    def locate(self, position: SourceOffset) -> DestinationOffset:
        """The destination offset, actual or expected, of the first record at or after `position`.

        Behind `until` it is that of the next record that is copied. In a span of which only the ends are known it is
        the first of them, and before the first range of mapped offsets, where records are gone, that one's.
        """
        position = position if self.until is None else min(position, self.until)
        if (span := self.unwalked_at(position)) is not None:
            return span.start.destination
        i = bisect_right(self.runs, position, key=lambda run: run.source)
        if i == 0 and self.is_mapped and self.runs:
            return self.runs[0].destination
        inside = DestinationOffset(position if i == 0 else position + self.runs[i - 1].shift)
        # Between two runs the source spends offsets that the copy does not (or the reverse): nothing to read there,
        # so reading goes on where the next run begins.
        return min(inside, self.runs[i].destination) if i < len(self.runs) else inside

    def origin(self, offset: DestinationOffset) -> SourceOffset:
        """The source offset of the record at destination `offset`; the inverse of `locate` on records.

        Of what is no record of the source (a marker, or what an aborted attempt has left) that of the next one. In a
        span of which only the ends are known it is the first of them.
        """
        i = bisect_right(self.runs, offset, key=lambda run: run.destination)
        if i == 0 and self.is_mapped:
            return SourceOffset(0)  # records that the mirror topic had before it was one
        if (span := self._unwalked_in_copy(offset)) is not None:
            return span.start.source
        ends = [self.runs[i].source] if i < len(self.runs) else [] if self.until is None else [self.until]
        return min([SourceOffset(max(0, offset - (self.runs[i - 1].shift if i else 0))), *ends])

    def _unwalked_in_copy(self, offset: DestinationOffset) -> AnchoredSpan | None:
        i = bisect_left(self.unwalked, offset, key=lambda span: span.start.destination) - 1
        return self.unwalked[i] if i >= 0 and offset < self.unwalked[i].until.destination else None

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
