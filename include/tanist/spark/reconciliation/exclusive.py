"""What runs tell of ranges that only one cluster can have: records without a copy, and none of them is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tanist.domain.reconciliation.result import ExplainedRange
from tanist.spark.reconciliation.runs import moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.runs import Runs


def cuts_of(ranges: Iterable[ExclusiveRange], *, at_source: bool) -> tuple[int, ...]:
    """The offsets of one side at which ranges begin or end."""
    both = (offset for each in ranges if each.at_source is at_source for offset in (each.start, each.until))
    return tuple(sorted({offset for offset in both if offset is not None}))


def held(ranges: Iterable[ExclusiveRange], offsets: Longs, *, at_source: bool) -> NDArray[np.bool_]:
    """Which offsets of one side lie in one of the ranges."""
    found = np.zeros(len(offsets), np.bool_)
    for each in ranges:
        if each.at_source is at_source:
            found |= _within(each, offsets)
    return found


def explained(ranges: Sequence[ExclusiveRange], lost: Runs, extras: Runs, end: int) -> Iterator[ExplainedRange]:
    """The ranges that hold records. `lost`: committed; `end`: the destination's last stable offset."""
    for each in ranges:
        if each.at_source:
            records = int(lost.records[_within(each, lost.source)].sum())
        else:
            records = committed(extras.where(_within(each, extras.destination)), end)
        if records:
            yield ExplainedRange(range=each, records=records)


def committed(extras: Runs, end: int) -> int:
    """How many records of the destination lie below its last stable offset."""
    return int(np.clip(end - extras.destination, 0, extras.length).sum())


def _within(each: ExclusiveRange, offsets: Longs) -> NDArray[np.bool_]:
    inside = offsets >= each.start
    return np.asarray(inside if each.until is None else inside & (offsets < each.until), np.bool_)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of committed records; of each see `tanist.domain.reconciliation.result.ReconciledPartition`."""

    copied: int
    moved: int
    lost: int
    behind: int
    repeated: int
    runs: int
    only_source: int = 0
    only_destination: int = 0

    @classmethod
    def of(
        cls, runs: Runs, extras: Runs, source_end: int, destination_end: int, ranges: Sequence[ExclusiveRange] = ()
    ) -> Self:
        """The numbers up to the last stable offsets of both. No lost run and no extra reaches across a range's end."""
        below = runs.where(runs.source < source_end)
        copied, lost = below.copied, below.lost
        here, there = held(ranges, lost.source, at_source=True), held(ranges, extras.destination, at_source=False)
        missing, again = lost.where(~here), extras.where(~there).again
        last = copied.ends[-1] if len(copied) else 0
        return cls(
            copied=int(copied.records.sum()),
            moved=int(copied.records[moved(copied)].sum()),
            lost=int(missing.records.sum()),
            behind=int(missing.records[missing.source >= last].sum()),
            repeated=committed(again, destination_end),
            runs=len(copied),
            only_source=int(lost.records[here].sum()),
            only_destination=committed(extras.where(there), destination_end),
        )
