"""Which bucket a record belongs to: its log is cut by time, at the same times on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import NDArray

    from tanist.spark.reconciliation.occurrences import Longs

IN_A_BUCKET: Final = 20_000
"""Records that a bucket should have: few enough to pair in memory, enough to be worth a call of numpy."""
_TIMES: Final = 2**61
"""Times beyond, which only a broken clock writes, share buckets: differences of any two others are no overflow."""
_REST: Final = 2**62 + 1
"""Longer than from any time to any other."""


class TimeSample(NamedTuple):
    """Times of a log's records; `records`: how many lie from each of them up to the next, as their offsets tell."""

    times: Longs
    records: Longs

    def earlier(self, times: Longs) -> NDArray[np.float64]:
        """About how many records of the log are earlier than each of `times`, which increase."""
        if not len(self.times):
            return np.zeros(len(times))
        order = np.argsort(self.times, kind="stable")
        known, first = np.unique(_clipped(self.times[order]), return_index=True)
        before = np.append(0, np.cumsum(self.records[order]))[:-1]
        return np.asarray(np.interp(times, known, before[first]), np.float64)


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """From `edges[i]` ms on buckets of `widths[i]` ms follow one another, the first of them has number `firsts[i]`.

    Bucket 0 is what lies before all edges. A time has one bucket, so all records that are alike have the same.
    """

    edges: Longs
    widths: Longs
    firsts: Longs
    count: int = 1

    @classmethod
    def of(cls, samples: Sequence[TimeSample], size: int) -> Self:
        """About `size` records in each bucket, of both sides together.

        Between two times of the samples buckets have one width: neither a few times far from all others nor an hour
        with most of the records makes buckets large; only one time does that many records have.
        """
        nothing = np.empty(0, np.int64)
        edges = np.unique(_clipped(np.concatenate([nothing, *(sample.times for sample in samples)])))
        if not len(edges):
            return cls(nothing, nothing, nothing)
        lengths = np.append(np.diff(edges), _REST)
        records = np.diff(sum(sample.earlier(edges) for sample in samples))
        wanted = np.append(np.maximum(1, np.ceil(records / size)), 1).astype(np.int64)
        widths = -(-lengths // np.minimum(wanted, lengths))
        ends = 1 + np.cumsum(-(-lengths // widths))
        return cls(edges, widths, np.append(1, ends[:-1]), int(ends[-1]))

    def numbers(self, times: Longs) -> Longs:
        """The bucket of each, below `count`."""
        if not len(self.edges):
            return np.zeros(len(times), np.int64)
        clipped = _clipped(times)
        segment = np.searchsorted(self.edges, clipped, side="right") - 1
        found = self.firsts[segment] + (clipped - self.edges[segment]) // self.widths[segment]
        return np.where(segment < 0, 0, found)


def _clipped(times: Longs) -> Longs:
    return np.clip(times, -_TIMES, _TIMES)
