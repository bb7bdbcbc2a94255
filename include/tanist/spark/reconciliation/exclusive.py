"""What runs tell of ranges that only one cluster can have: records without a copy, and none of them is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tanist.domain.reconciliation.result import ExplainedRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.spark.reconciliation.pairing import Longs
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
