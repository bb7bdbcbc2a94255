"""Where a reader of one log goes on in the other: the largest offset that leaves no record out.

With l(i) the last copy of the source record i, a reader that stands at o goes on at t(o), the smallest l(i) of all
i >= o: everything it has not read yet comes at or after t(o), however often records were repeated or reordered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tanist.domain.reconciled.placements import STANDINGS, WHY, Standing
from tanist.domain.translation import Precision
from tanist.spark.reconciliation.again import Extras, again
from tanist.spark.reconciliation.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from tanist.spark.reconciliation.occurrences import Longs

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Translated:
    """`destination` is None where nothing may be said.

    `exact`: the reader goes on with the very record that it would have read next, or there is none, and nothing comes
    again that it has read. Where not, at most `again` such records come.
    """

    source: int
    destination: int | None
    placement: Standing
    exact: bool
    again: int = 0

    @property
    def precision(self) -> Precision:
        if self.destination is None:
            return Precision.UNKNOWN
        return Precision.EXACT if self.exact else Precision.CONSERVATIVE

    @property
    def why(self) -> str | None:
        return None if self.exact else WHY[self.placement]


@dataclass(frozen=True, slots=True)
class Ends:
    """Of the source, fixed after the destination's: what lies between these has not been decided."""

    last_stable: int
    high_watermark: int


def translate(
    runs: Runs, extras: Runs, ends: Ends, positions: Sequence[int], bounds: Runs | None = None
) -> tuple[Translated, ...]:
    """Where a reader that would read `positions[i]` next goes on; never behind a record that it has not read.

    `runs`: every record of the source, also those of open transactions (none across the last stable offset); `extras`:
    every record of the destination that is nobody's last copy; `bounds`: where the last copies of equal records may
    lie, of those that hold positions back. Of records that the source has deleted since nobody can tell where their
    copies lie: the order of the copy is believed.
    """
    asked = np.array(sorted({each for each in positions if 0 <= each <= ends.high_watermark}), np.int64)
    table = Table.of(runs, extras, ends.last_stable, Runs.none() if bounds is None else bounds)
    known = {found.source: found for found in _translated(table, asked)} if len(table.copied) else {}
    return tuple(known.get(each) or _unknown(each, ends.high_watermark) for each in positions)


def _unknown(position: int, end: int) -> Translated:
    if position < 0:
        return Translated(position, None, Standing.NO_POSITION, exact=False)
    beyond = position > end
    return Translated(position, None, Standing.BEYOND_END if beyond else Standing.NOTHING_IN_COMMON, exact=False)


def _translated(table: Table, positions: Longs) -> Iterator[Translated]:
    found = table.answers(positions)
    rows = zip(*(column.tolist() for column in (positions, *found)), strict=True)
    for position, there, placement, exact, repeated in rows:
        yield Translated(position, there, STANDINGS[placement], exact, repeated)


class Answers(NamedTuple):
    """Of increasing positions; columns. As `Translated` has them."""

    there: Longs
    placement: Longs  # as STANDINGS numbers them
    exact: NDArray[np.bool_]
    again: Longs


@dataclass(frozen=True, slots=True)
class Table:
    """Runs with a copy, and for each the smallest offset from it on, the largest up to it."""

    runs: Runs
    copied: Runs
    lost: Runs
    extras: Extras
    smallest: Longs
    """One more than runs: the last is _NEVER."""
    largest: Longs
    """One more than runs: [i] is of those before run i; [0] is the offset before the copy's first record."""
    tail: Runs
    """The records behind the last one with a copy."""
    last_stable: int
    bounds: Runs

    @classmethod
    def of(cls, runs: Runs, extras: Runs, last_stable: int, bounds: Runs) -> Self:
        """As `translate` is given them."""
        copied, lost = runs.copied, runs.lost
        first = min((int(side.destination.min()) for side in (copied, extras) if len(side)), default=0)
        last = copied.ends[-1] if len(copied) else 0
        return cls(
            runs=runs,
            copied=copied,
            lost=lost,
            extras=Extras.of(extras),
            smallest=_smallest_from(copied),
            largest=np.append(first - 1, np.maximum.accumulate(copied.destination_ends - 1)),
            tail=lost.where(lost.source >= last),
            last_stable=last_stable,
            bounds=bounds,
        )

    def answers(self, positions: Longs) -> Answers:
        """Of increasing positions up to the end; some record has a copy."""
        at = np.searchsorted(self.copied.ends, positions, side="right")
        run = np.minimum(at, len(self.copied) - 1)
        behind = at == len(self.copied)
        inside = ~behind & (self.copied.source[run] <= positions)
        shifted = positions + self.copied.destination[run] - self.copied.source[run]
        later = self.smallest[run + 1]
        told = np.where(inside, np.minimum(shifted, later), np.minimum(self.largest[at] + 1, self.smallest[at]))
        there = np.minimum(told, self._bound(positions))
        is_open = there < told
        undecided = ~behind & (self.copied.source[run] >= self.last_stable)
        next_comes = np.select(
            [undecided, inside, behind],
            [
                np.zeros(len(positions), bool),
                self._own_next(run, there, shifted < later, later),
                self._nothing_next(positions, there),
            ],
            self._next_after_gap(positions, run, there),
        )
        of_tail = _records_before(self.tail, positions)
        repeated = again(self.runs, self.extras, positions, there) + np.where(behind, of_tail, 0)
        exact = next_comes & ~is_open & (repeated == 0)
        placement = self._placements(at, inside, undecided, shifted < later, exact, behind & (of_tail == 0))
        return Answers(there, np.where(is_open, STANDINGS.index(Standing.OPEN), placement), exact, repeated)

    def _bound(self, positions: Longs) -> Longs:
        """The smallest of `bounds` at and behind each position."""
        if not len(self.bounds):
            return np.full(len(positions), _NEVER, np.int64)
        at = np.searchsorted(self.bounds.ends, positions, side="right")
        run = np.minimum(at, len(self.bounds) - 1)
        within = np.maximum(positions - self.bounds.source[run], 0) + self.bounds.destination[run]
        later = _smallest_from(self.bounds)
        return np.where(at < len(self.bounds), np.minimum(within, later[run + 1]), _NEVER)

    def _own_next(self, run: Longs, there: Longs, first: NDArray[np.bool_], later: Longs) -> NDArray[np.bool_]:
        """Inside a run: where it has gaps, nothing else of the destination may lie from there on to its end."""
        ends = self.copied.destination_ends[run]
        undisturbed = (later >= ends) & (self.extras.between(there, ends) == 0)
        return np.asarray(first & (self.copied.dense[run] | undisturbed), np.bool_)

    def _nothing_next(self, positions: Longs, there: Longs) -> NDArray[np.bool_]:
        """Behind the last record with a copy: nothing is there yet, nothing of the source was passed over."""
        tail = int(self.tail.source[0]) if len(self.tail) else _NEVER
        more = self.extras.between(there, np.full_like(there, _NEVER))
        return np.asarray((positions <= tail) & (more == 0), np.bool_)

    def _next_after_gap(self, positions: Longs, run: Longs, there: Longs) -> NDArray[np.bool_]:
        """Between runs: the next record of the source has a copy, and it is what comes first."""
        ahead, starts = self.copied.destination[run], self.copied.source[run]
        lost = np.searchsorted(self.lost.ends, positions, side="right")
        lost_next = np.append(self.lost.source, _NEVER)[lost] < starts
        first = (self.smallest[run] == ahead) & (there <= ahead)
        return np.asarray(first & ~lost_next & (self.extras.between(there, ahead) == 0), np.bool_)

    def _placements(
        self,
        at: Longs,
        inside: NDArray[np.bool_],
        undecided: NDArray[np.bool_],
        in_order: NDArray[np.bool_],
        exact: NDArray[np.bool_],
        caught_up: NDArray[np.bool_],
    ) -> Longs:
        cases = [
            (inside & exact, Standing.EXACT),
            (inside & ~in_order, Standing.REORDERED),
            (undecided, Standing.UNDECIDED),
            (inside, Standing.REPEATED),
            (caught_up, Standing.CAUGHT_UP),
            (at == len(self.copied), Standing.BEYOND_TAIL),
            (at == 0, Standing.BEFORE_FIRST_RUN),
        ]
        numbers = [STANDINGS.index(placement) for _, placement in cases]
        return np.select([case for case, _ in cases], numbers, STANDINGS.index(Standing.IN_A_GAP)).astype(np.int64)


def _smallest_from(runs: Runs) -> Longs:
    """The smallest destination offset of each run and those behind it; one more than runs."""
    return np.append(np.minimum.accumulate(runs.destination[::-1])[::-1], _NEVER)


def _records_before(runs: Runs, positions: Longs) -> Longs:
    """How many records of `runs` lie before each position, at most."""
    at = np.searchsorted(runs.source, positions)
    if not len(runs):
        return np.zeros(len(positions), np.int64)
    before = np.append(0, np.cumsum(runs.records))
    last = np.maximum(at - 1, 0)
    within = np.minimum(positions - runs.source[last], runs.records[last])
    return np.where(at > 0, before[last] + within, 0)
