"""Pairs of offsets, written down in few lines: where both logs advance in step, one run says it all."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tanist.spark.reconciliation.occurrences import NOWHERE, Longs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from tanist.spark.reconciliation.pairing import Pairs


_LOST: Final = np.iinfo(np.int64).min
"""Stands for the distance between two offsets one of which is NOWHERE."""


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
    def destination_ends(self) -> Longs:
        """The destination offset behind each run."""
        return self.destination + self.length

    @property
    def dense(self) -> NDArray[np.bool_]:
        """Which runs have a record at each of their offsets."""
        return np.equal(self.length, self.records)

    @property
    def copied(self) -> Self:
        """The runs of records that have a copy."""
        return self.where(self.destination != NOWHERE)

    @property
    def lost(self) -> Self:
        """The runs of records that have none."""
        return self.where(self.destination == NOWHERE)

    @property
    def alone(self) -> Self:
        """Of extras: the runs of records that the source has not."""
        return self.where(self.source == NOWHERE)

    @property
    def again(self) -> Self:
        """Of extras: the runs of records that the source has, but that are nobody's last copy."""
        return self.where(self.source != NOWHERE)

    def where(self, chosen: NDArray[Any]) -> Self:
        """The rows that a mask or a list of indices chooses."""
        return type(self)(self.source[chosen], self.destination[chosen], self.length[chosen], self.records[chosen])

    def distances(self) -> Longs:
        nowhere = (self.destination == NOWHERE) | (self.source == NOWHERE)
        return np.where(nowhere, _LOST, self.destination - self.source)


def together(parts: Iterable[Runs]) -> Runs:
    """All rows of `parts`, one after the other."""
    every = list(parts)
    if not every:
        return Runs.none()
    return Runs(
        np.concatenate([part.source for part in every]),
        np.concatenate([part.destination for part in every]),
        np.concatenate([part.length for part in every]),
        np.concatenate([part.records for part in every]),
    )


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


def compress_bounds(source: Longs, pairs: Pairs) -> Runs:
    """The runs of `pairs.earliest`, of those records that hold positions back further than all copies do."""
    known = np.where(pairs.copies == NOWHERE, np.iinfo(np.int64).max, pairs.copies)
    smallest = np.minimum.accumulate(known[::-1])[::-1]
    chosen = (pairs.earliest != NOWHERE) & (pairs.earliest < smallest)
    return compress(source[chosen], pairs.earliest[chosen])


def compress_extras(pairs: Pairs) -> Runs:
    """The runs of the destination's other records. `source`: the first record that is like each, or NOWHERE."""
    order = np.argsort(pairs.extras, kind="stable")
    turned = compress(pairs.extras[order], pairs.origins[order])
    return Runs(turned.destination, turned.source, turned.length, turned.records)


def merge(parts: Iterable[Runs], cut: int | None = None, lost_cuts: Sequence[int] = ()) -> Runs:
    """One list of runs from those of all parts of a log, whatever their order.

    Neighbours with the same distance between source and copy become one, also across a gap: both logs leave out as
    many offsets there, so what lies behind the gap of one lies behind that of the other. None reaches across a copy of
    another record, and none across the source offset `cut`; none without a copy across one of `lost_cuts`.
    """
    runs = together(parts)
    if not len(runs):
        return runs
    runs = runs if cut is None else _split(runs, cut)
    for each in lost_cuts:
        runs = together([runs.copied, _split(runs.lost, each)])
    runs = runs.where(np.argsort(runs.source, kind="stable"))
    rank = np.empty(len(runs), np.int64)
    rank[np.argsort(runs.destination, kind="stable")] = np.arange(len(runs))
    apart = (np.diff(runs.distances()) != 0) | ((np.diff(rank) != 1) & (runs.destination[1:] != NOWHERE))
    if cut is not None:
        apart |= (runs.source[:-1] < cut) & (runs.source[1:] >= cut)
    for each in lost_cuts:
        apart |= (runs.source[:-1] < each) & (runs.source[1:] >= each) & (runs.destination[1:] == NOWHERE)
    first = np.concatenate(([0], np.flatnonzero(apart) + 1))
    ends = np.maximum.reduceat(runs.ends, first)
    source, records = runs.source[first], np.add.reduceat(runs.records, first)
    return Runs(source, runs.destination[first], ends - source, records)


def _split(runs: Runs, cut: int) -> Runs:
    """The run that has a record at `cut` and at each offset around it, in two."""
    across = (runs.source < cut) & (runs.ends > cut) & runs.dense
    both = runs.where(across)
    before = cut - both.source
    there = np.where(both.destination == NOWHERE, NOWHERE, both.destination + before)
    first = Runs(both.source, both.destination, before, before)
    second = Runs(both.source + before, there, both.length - before, both.length - before)
    return together([runs.where(~across), first, second])


def _split_extras(runs: Runs, cut: int) -> Runs:
    """The extras around the destination offset `cut` in two; each has a record at every offset."""
    across = (runs.destination < cut) & (runs.destination_ends > cut)
    both = runs.where(across)
    before = cut - both.destination
    later = np.where(both.source == NOWHERE, NOWHERE, both.source + before)
    first = Runs(both.source, both.destination, before, before)
    second = Runs(later, both.destination + before, both.length - before, both.length - before)
    return together([runs.where(~across), first, second])


def join(runs: Runs) -> Runs:
    """Fewer runs from some of a log: what lies in a gap between two is not known yet, so none reaches across one."""
    if not len(runs):
        return runs
    runs = runs.where(np.argsort(runs.source, kind="stable"))
    apart = (np.diff(runs.distances()) != 0) | (runs.source[1:] != runs.ends[:-1])
    first = np.concatenate(([0], np.flatnonzero(apart) + 1))
    length, records = np.add.reduceat(runs.length, first), np.add.reduceat(runs.records, first)
    return Runs(runs.source[first], runs.destination[first], length, records)


def merge_extras(parts: Iterable[Runs], cuts: Sequence[int] = ()) -> Runs:
    """One list of extras by destination offset; none reaches across a gap, or across a destination offset of `cuts`."""
    runs = together(parts)
    for each in cuts:
        runs = _split_extras(runs, each)
    if not len(runs):
        return runs
    runs = runs.where(np.argsort(runs.destination, kind="stable"))
    apart = (np.diff(runs.distances()) != 0) | (runs.destination[1:] != runs.destination_ends[:-1])
    for each in cuts:
        apart |= (runs.destination[:-1] < each) & (runs.destination[1:] >= each)
    first = np.concatenate(([0], np.flatnonzero(apart) + 1))
    length = np.add.reduceat(runs.length, first)
    return Runs(runs.source[first], runs.destination[first], length, length)


def moved(copied: Runs) -> NDArray[np.bool_]:
    """Which runs are out of order: those outside of the heaviest sequence whose copies have the source's order.

    For each run the heaviest sequence that ends with it, found among those that end before it at the destination: of
    these only such are kept that weigh more than every one that ends earlier.
    """
    ends: list[int] = []
    weights: list[int] = []
    tails: list[int] = []
    before = np.full(len(copied), NOWHERE, np.int64)
    rows = zip(copied.destination.tolist(), copied.destination_ends.tolist(), copied.records.tolist(), strict=True)
    for i, (start, end, records) in enumerate(rows):
        at = bisect_left(ends, start + 1)
        weight = records + (weights[at - 1] if at else 0)
        before[i] = tails[at - 1] if at else NOWHERE
        place = bisect_left(ends, end)
        if place and weights[place - 1] >= weight:
            continue
        until = place
        while until < len(ends) and weights[until] <= weight:
            until += 1
        ends[place:until], weights[place:until], tails[place:until] = [end], [weight], [i]
    out = np.ones(len(copied), bool)
    at = tails[-1] if tails else NOWHERE
    while at != NOWHERE:
        out[at], at = False, int(before[at])
    return out
