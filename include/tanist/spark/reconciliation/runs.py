"""Pairs of offsets, written down in few lines: where both logs advance in step, one run says it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tanist.spark.reconciliation.pairing import NOWHERE, Longs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from numpy.typing import NDArray


_LOST: Final = np.iinfo(np.int64).min
"""Stands for the distance between a record and its copy where there is no copy."""


@dataclass(frozen=True, slots=True)
class Runs:
    """From `source[i]` on, for `length[i]` offsets, the copy of offset o lies at o + destination[i] - source[i].

    Columns; `source` increases and runs do not overlap there. Where `destination[i]` is NOWHERE, none of the records
    has a copy. `records[i]`: how many of the offsets hold a record; at the others the source has none.
    """

    source: Longs
    destination: Longs
    length: Longs
    records: Longs

    @classmethod
    def none(cls) -> Self:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def ends(self) -> Longs:
        """The source offset behind each run."""
        return self.source + self.length

    @property
    def copied(self) -> Self:
        """The runs of records that have a copy."""
        return self.where(self.destination != NOWHERE)

    @property
    def lost(self) -> Self:
        """The runs of records that have none."""
        return self.where(self.destination == NOWHERE)

    def where(self, chosen: NDArray[Any]) -> Self:
        """The rows that a mask or a list of indices chooses."""
        return type(self)(self.source[chosen], self.destination[chosen], self.length[chosen], self.records[chosen])

    def distances(self) -> Longs:
        return np.where(self.destination == NOWHERE, _LOST, self.destination - self.source)


def compress(source: Longs, copies: Longs) -> Runs:
    """The runs of `source` offsets (increasing) and the offsets of their last copies; none reaches across a gap."""
    if not len(source):
        return Runs.none()
    step = np.diff(source) == 1
    both = (copies[1:] != NOWHERE) & (copies[:-1] != NOWHERE) & (np.diff(copies) == 1)
    neither = (copies[1:] == NOWHERE) & (copies[:-1] == NOWHERE)
    first = np.concatenate(([0], np.flatnonzero(~(step & (both | neither))) + 1))
    length = np.diff(np.append(first, len(source)))
    return Runs(source[first], copies[first], length, length)


def merge(parts: Iterable[Runs]) -> Runs:
    """One list of runs from those of several parts of a log, whatever their order.

    Neighbours with the same distance between source and copy become one, also across a gap: both logs leave out as
    many offsets there, so what lies behind the gap of one lies behind that of the other.
    """
    every = [part for part in parts if len(part)]
    if not every:
        return Runs.none()
    runs = Runs(
        np.concatenate([part.source for part in every]),
        np.concatenate([part.destination for part in every]),
        np.concatenate([part.length for part in every]),
        np.concatenate([part.records for part in every]),
    )
    runs = runs.where(np.argsort(runs.source, kind="stable"))
    first = np.concatenate(([0], np.flatnonzero(np.diff(runs.distances())) + 1))
    ends = np.maximum.reduceat(runs.ends, first)
    source, records = runs.source[first], np.add.reduceat(runs.records, first)
    return Runs(source, runs.destination[first], ends - source, records)
