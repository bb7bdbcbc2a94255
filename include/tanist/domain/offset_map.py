"""Which offset of the copy holds which record of the source.

An identical partition has no runs. Where identity was lost (a surplus filler marker, a log with holes) the relation is
a list of runs, each written to `__mirror_offsets` ahead of its first record, so that a translation is exact at every
lag, with the source dead.
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
    """From `source` on, until the next run begins, both logs advance in step."""

    source: SourceOffset
    destination: DestinationOffset

    @property
    def shift(self) -> int:
        """How many offsets the copy is ahead (negative: behind)."""
        return self.destination - self.source


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Runs, `source` strictly increasing; before the first run the logs are identical.

    Build it with `of`: a run that was written ahead by a worker that died may have been written again.
    """

    runs: tuple[OffsetRange, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[OffsetRange]) -> OffsetMap:
        """The map that `runs` (in any order) describe: for one source start the largest destination wins.

        The destination's end never moves back, so the largest one was written last.
        """
        latest: dict[SourceOffset, DestinationOffset] = {}
        for run in sorted(runs):
            latest[run.source] = run.destination
        return cls(tuple(OffsetRange(s, d) for s, d in sorted(latest.items())))

    def with_run(self, run: OffsetRange) -> OffsetMap:
        """This map and one run more."""
        return OffsetMap.of((*self.runs, run))

    def locate(self, position: SourceOffset) -> DestinationOffset:
        """Where the first record at or after `position` lies in the copy, or will lie if nothing else happens."""
        i = bisect_right(self.runs, position, key=lambda run: run.source)
        inside = DestinationOffset(position if i == 0 else position + self.runs[i - 1].shift)
        # Between two runs the source spends offsets that the copy does not (or the reverse): nothing to read there,
        # so reading goes on where the next run begins.
        return min(inside, self.runs[i].destination) if i < len(self.runs) else inside

    def origin(self, offset: DestinationOffset) -> SourceOffset:
        """The source offset of the record that lies at `offset` of the copy; the inverse of `locate` on records."""
        shift = 0
        for run in self.runs:
            if run.destination > offset:
                break
            shift = run.shift
        return SourceOffset(max(0, offset - shift))

    def shift_at(self, position: SourceOffset) -> int:
        """By how many offsets the copy is ahead at `position`; 0: identical here."""
        i = bisect_right(self.runs, position, key=lambda run: run.source)
        return 0 if i == 0 else self.runs[i - 1].shift
