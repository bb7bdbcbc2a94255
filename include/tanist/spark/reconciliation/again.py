"""How many records come again to a reader that goes on in a copy: never fewer than are told.

Records come again that were read: those whose last copy lies behind where a reader goes on, and repeated ones. And so
may what the source does not have any more (deleted, or aborted): it was read if it had lain before the position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.runs import Runs


@dataclass(frozen=True, slots=True)
class Extras:
    """Records of the destination that are nobody's last copy, by offset; `counts`: of those before each run."""

    runs: Runs
    counts: Longs

    @classmethod
    def of(cls, runs: Runs) -> Self:
        """`runs` by destination offset, none across a gap."""
        return cls(runs, np.append(0, np.cumsum(runs.length)).astype(np.int64))

    def between(self, start: Longs, until: Longs) -> Longs:
        """How many lie from `start` on up to, not including, `until`."""
        return np.asarray(self._before(until) - self._before(start), np.int64)

    def _before(self, offsets: Longs) -> Longs:
        if not len(self.runs):
            return np.zeros(len(offsets), np.int64)
        last = np.maximum(np.searchsorted(self.runs.destination, offsets) - 1, 0)
        within = np.clip(offsets - self.runs.destination[last], 0, self.runs.length[last])
        return np.asarray(self.counts[last] + within, np.int64)


def again(runs: Runs, extras: Extras, positions: Longs, there: Longs) -> Longs:
    """How many records that were read before positions[i] come from there[i] on, at most; both increase.

    What the source does not have any more may be like any of the copy's other records: then all of these count.
    """
    earlier = _at_or_behind(runs.copied, positions, there)
    repeated = _at_or_behind(extras.runs.again, positions, there)
    every = extras.between(there, np.full_like(there, np.iinfo(np.int64).max))
    return np.asarray(earlier + np.where(_hidden(runs, positions) > 0, every, repeated), np.int64)


def _hidden(runs: Runs, positions: Longs) -> Longs:
    """How many offsets before each position hold nothing that the source still has, at most."""
    if not len(runs):
        return positions
    counts = np.append(0, np.cumsum(runs.records))
    at = np.searchsorted(runs.ends, positions, side="right")
    run = np.minimum(at, len(runs) - 1)
    sure = np.clip(runs.records[run] - (runs.ends[run] - positions), 0, None)
    return np.asarray(positions - counts[at] - np.where(at < len(runs), sure, 0), np.int64)


def _at_or_behind(runs: Runs, positions: Longs, there: Longs) -> Longs:
    """How many records of `runs` before positions[i] lie at or behind there[i], at most; both increase.

    A run that lies wholly so counts for all positions from one on up to another; only where a position cuts it is it
    looked at by itself.
    """
    counts = np.zeros(len(positions) + 1, np.int64)
    begin = np.searchsorted(positions, runs.source, side="right")
    end = np.searchsorted(there, runs.destination_ends, side="left")
    whole_from = np.searchsorted(positions, runs.ends, side="left")
    whole_until = np.searchsorted(there, runs.destination, side="right")
    whole = whole_from < whole_until
    np.add.at(counts, whole_from[whole], runs.records[whole])
    np.add.at(counts, whole_until[whole], -runs.records[whole])
    found = np.cumsum(counts)[:-1]
    cut = (begin < end) & ~(whole & (whole_from == begin) & (whole_until == end))
    for i in np.flatnonzero(cut).tolist():
        source, destination, length, records = (
            int(column[i]) for column in (runs.source, runs.destination, runs.length, runs.records)
        )
        parts = ((begin[i], whole_from[i]), (whole_until[i], end[i])) if whole[i] else ((begin[i], end[i]),)
        for first, last in parts:
            here = slice(first, last)
            passed = np.clip(there[here] - destination, 0, None)
            found[here] += np.clip(np.minimum(positions[here] - source, length) - passed, 0, records)
    return np.asarray(found, np.int64)
