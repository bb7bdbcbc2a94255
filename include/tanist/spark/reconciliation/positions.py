"""Where a reader of one log goes on in the other: the largest offset that leaves no record out.

With l(i) the last copy of the source record i, a reader that stands at o goes on at t(o), the smallest l(i) of all
i >= o: everything it has not read yet comes at or after t(o), however often records were repeated or reordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from tanist.domain.translation import Precision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from tanist.spark.reconciliation.pairing import Longs
    from tanist.spark.reconciliation.runs import Runs

_NEVER: Final = np.iinfo(np.int64).max


class Standing(StrEnum):
    """Where a position lies in what both logs have in common."""

    EXACT = "exact"
    REORDERED = "reordered"
    IN_A_GAP = "in a gap"
    BEFORE_FIRST_RUN = "clamped to first run"
    CAUGHT_UP = "caught up"
    BEYOND_TAIL = "beyond mapped tail"
    NOTHING_IN_COMMON = "nothing in common"
    NO_POSITION = "no position"


WHY: Final = {
    Standing.REORDERED: (
        "later records of the source are earlier at the destination: the records in between are read again"
    ),
    Standing.IN_A_GAP: "the source or the destination has no record at this offset: resume after the previous record",
    Standing.BEFORE_FIRST_RUN: "older than the first common record: resume at the first record of the destination",
    Standing.BEYOND_TAIL: "after the last copied record: records copied later are read again",
    Standing.NOTHING_IN_COMMON: "the partitions have no record in common",
    Standing.NO_POSITION: "a position must be an offset >= 0",
}
"""What to tell of a position that is not exact."""


@dataclass(frozen=True, slots=True)
class Translated:
    """`destination` is None where nothing may be said.

    `exact`: the reader goes on with the very record that it would have read next, or there is none. Where not, some
    records come again.
    """

    source: int
    destination: int | None
    placement: Standing
    exact: bool

    @property
    def precision(self) -> Precision:
        if self.destination is None:
            return Precision.UNKNOWN
        return Precision.EXACT if self.exact else Precision.CONSERVATIVE

    @property
    def why(self) -> str | None:
        return None if self.exact else WHY[self.placement]


def translate(runs: Runs, first: int | None, positions: Sequence[int]) -> tuple[Translated, ...]:
    """Where a reader that would read `positions[i]` next goes on; never behind a record that it has not read.

    `first`: the offset of the first record at the destination, copied or not; None if there is none. Of records that
    the source has deleted since nobody can tell where their copies lie: the order of the copy is believed.
    """
    table = _Table.of(runs, first)
    return tuple(table.translated(position) for position in positions)


@dataclass(frozen=True, slots=True)
class _Table:
    """Runs with a copy, and for each the smallest offset from it on, the largest up to it."""

    runs: Runs
    ends: Longs
    smallest: Longs
    """One more than runs: the last is _NEVER."""
    largest: Longs
    """One more than runs: [i] is of those before run i; [0] is the offset before the copy's first record."""
    first_uncopied: int
    """The first record behind the last one with a copy: who has not read it is caught up. _NEVER: there is none."""

    @classmethod
    def of(cls, runs: Runs, first: int | None) -> Self:
        copied, before = runs.copied, -1 if first is None else first - 1
        ends = copied.ends
        tail = runs.lost.source[runs.lost.source >= ends[-1]] if len(copied) else runs.lost.source
        return cls(
            runs=copied,
            ends=ends,
            smallest=np.append(np.minimum.accumulate(copied.destination[::-1])[::-1], _NEVER),
            largest=np.append(before, np.maximum.accumulate(copied.destination + copied.length - 1)),
            first_uncopied=int(tail[0]) if len(tail) else _NEVER,
        )

    def translated(self, position: int) -> Translated:
        if position < 0:
            return Translated(position, None, Standing.NO_POSITION, exact=False)
        if not len(self.runs):
            return Translated(position, None, Standing.NOTHING_IN_COMMON, exact=False)
        at = int(np.searchsorted(self.ends, position, side="right"))
        if at < len(self.runs) and self.runs.source[at] <= position:
            return self._inside(position, at)
        return self._between(position, at)

    def _inside(self, position: int, at: int) -> Translated:
        there = int(position + self.runs.destination[at] - self.runs.source[at])
        later = int(self.smallest[at + 1])
        standing = Standing.EXACT if there < later else Standing.REORDERED
        return Translated(position, min(there, later), standing, exact=there < later)

    def _between(self, position: int, at: int) -> Translated:
        behind, ahead = int(self.largest[at]) + 1, int(self.smallest[at])
        there = min(behind, ahead)
        if at == len(self.runs):
            caught_up = position <= self.first_uncopied
            standing = Standing.CAUGHT_UP if caught_up else Standing.BEYOND_TAIL
            return Translated(position, there, standing, exact=caught_up)
        standing = Standing.IN_A_GAP if at else Standing.BEFORE_FIRST_RUN
        return Translated(position, there, standing, exact=behind == ahead)
