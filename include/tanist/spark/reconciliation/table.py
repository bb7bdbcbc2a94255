"""The table of steps that is published of a partition: what `positions.Table` answers, for every position at once.

Between two *corners* all that it answers is linear: where a reader goes on rises by one with each position or stays,
and what comes again changes evenly. So the first and the last position between two corners tell of all of them.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tanist.domain.reconciled.placements import STANDINGS, Standing
from tanist.domain.reconciled.steps import MOST_STEPS, Step, Steps, kind_of
from tanist.spark.reconciliation.positions import Answers, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.positions import Ends
    from tanist.spark.reconciliation.runs import Runs

_AT_ONCE: Final = 1 << 19
"""Positions that are looked up at once."""
_EXACT: Final = STANDINGS.index(Standing.EXACT)


class StepTable(NamedTuple):
    """`merged`: steps that stand for several, because there would have been more than allowed."""

    steps: Steps
    merged: int


class _Lines(NamedTuple):
    """Steps as columns; `length` of each in positions."""

    source: Longs
    length: Longs
    destination: Longs
    slopes: NDArray[np.bool_]
    exact: NDArray[np.bool_]
    placement: Longs
    again: Longs

    def where(self, chosen: NDArray[np.bool_] | Longs) -> _Lines:
        return self.made(column[chosen] for column in self)

    @classmethod
    def made(cls, columns: Iterable[NDArray[Any]]) -> _Lines:
        """Of all columns, in their order."""
        return cls(*columns)

    @property
    def last(self) -> Longs:
        """Where the last position of each goes on."""
        return self.destination + np.where(self.slopes, self.length - 1, 0)


def published(
    runs: Runs, extras: Runs, bounds: Runs, ends: Ends, destination_until: int, most: int = MOST_STEPS
) -> StepTable:
    """The table of all positions up to the source's high watermark; of an empty copy, its end for all of them.

    At most `most` steps. As `positions.translate` has the others; some record has a copy, or the destination has none.
    """
    if not len(runs.copied):
        flat = Step(0, None, destination_until, slopes=False, exact=False, placement=Standing.BEYOND_TAIL, again=0)
        return StepTable(Steps.of([flat]), 0)
    table = Table.of(runs, extras, ends.last_stable, bounds)
    corners = _corners(table, extras, ends)
    lines = _joined(_lines(table, corners, ends.high_watermark))
    merged = 0
    if len(lines.source) > most:
        lines, merged = _coarser(lines, most)
    kinds = np.zeros(len(lines.source), np.int64)
    for number in np.unique(lines.placement).tolist():
        for exact in (False, True):
            for slopes in (False, True):
                these = (lines.placement == number) & (lines.exact == exact) & (lines.slopes == slopes)
                kinds[these] = kind_of(STANDINGS[number], exact=exact, slopes=slopes)
    columns = (lines.source, lines.destination, kinds, lines.again)
    return StepTable(Steps(*(array("q", column.tobytes()) for column in columns)), merged)


# ── corners ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _corners(table: Table, extras: Runs, ends: Ends) -> Longs:
    """All positions at which something changes, and their neighbours, from 0 to the high watermark."""
    end = ends.high_watermark
    again = extras.again
    at_source = [
        np.array([0, ends.last_stable, end]),
        *(
            offsets
            for side in (table.runs, table.bounds, again)
            for offsets in (side.source, side.ends, side.source + side.records, side.ends - side.records)
        ),
    ]
    at_destination = np.unique(
        np.concatenate(
            [
                offsets
                for side in (table.copied, table.bounds, extras)
                for offsets in (side.destination, side.destination_ends)
            ]
        )
    )
    corners = _around(np.concatenate(at_source), end)
    corners = np.union1d(corners, _kinks(corners, _there(table, corners), end))
    passed = _passed(corners, _there(table, corners), np.append(at_destination, at_destination + 1))
    return np.union1d(corners, _around(passed, end))


def _around(positions: Longs, end: int) -> Longs:
    every = np.unique(np.concatenate([positions - 1, positions, positions + 1]))
    return every[(every >= 0) & (every <= end)]


def _there(table: Table, positions: Longs) -> Longs:
    return _answers(table, positions).there


def _answers(table: Table, positions: Longs) -> Answers:
    parts = [table.answers(positions[n : n + _AT_ONCE]) for n in range(0, len(positions), _AT_ONCE)]
    return Answers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _kinks(corners: Longs, there: Longs, end: int) -> Longs:
    """Where a slope meets a bound between two corners: it rises up to there, and stays."""
    risen, length = np.diff(there), np.diff(corners)
    inside = (risen > 0) & (risen < length)
    return _around(corners[:-1][inside] + risen[inside], end)


def _passed(corners: Longs, there: Longs, destinations: Longs) -> Longs:
    """The first positions that go on at or behind `destinations`, where a slope passes these between two corners."""
    n = np.searchsorted(there, destinations) - 1
    inside = (n >= 0) & (n < len(corners) - 1)
    n, wanted = n[inside], destinations[inside]
    found = corners[n] + wanted - there[n]
    return found[found < corners[n + 1]]


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(table: Table, corners: Longs, end: int) -> _Lines:
    """A line from each corner up to the next; where its ends disagree it is what the worse of them is."""
    lasts = np.append(corners[1:] - 1, end)
    first, last = _answers(table, corners), _answers(table, lasts)
    length = lasts - corners + 1
    risen = last.there - first.there
    straight = (risen == 0) | (risen == length - 1)
    exact = first.exact & last.exact & straight
    placement = np.where(first.exact, last.placement, first.placement)
    placement = np.where(first.exact & last.exact, STANDINGS.index(Standing.MERGED), placement)
    return _Lines(
        source=corners,
        length=length,
        destination=first.there,
        slopes=(risen == length - 1) & (length > 1),
        exact=exact,
        placement=np.where(exact, _EXACT, placement),
        again=np.maximum(first.again, last.again) + np.where(straight, 0, risen),
    )


def _joined(lines: _Lines) -> _Lines:
    """Neighbours on one line as one, if what is said of them is the same, and of what comes again nearly."""
    single = lines.length == 1
    ahead = np.append(lines.destination[1:] == lines.last[:-1] + 1, [False])
    behind = np.append([False], ahead[:-1] & (single | lines.slopes)[:-1])
    slopes = np.where(single, ahead | behind, lines.slopes)
    lines = lines._replace(slopes=slopes)
    on = lines.destination[1:] == lines.last[:-1] + lines.slopes[:-1]
    same = (np.diff(lines.exact.astype(np.int8)) == 0) & (np.diff(lines.placement) == 0)
    alike = (lines.slopes[1:] == lines.slopes[:-1]) & (np.diff(_magnitude(lines.again)) == 0)
    first = np.append([0], np.flatnonzero(~(on & same & alike)) + 1)
    joined = lines.where(first)
    return joined._replace(length=np.add.reduceat(lines.length, first), again=np.maximum.reduceat(lines.again, first))


def _magnitude(numbers: Longs) -> Longs:
    return np.asarray(np.ceil(np.log2(numbers + 1.0)), np.int64)


def _coarser(lines: _Lines, most: int) -> tuple[_Lines, int]:
    """At most `most` steps: the later half as it is, since readers are there; of the earlier ones many become one.

    Whoever is in such a one goes on at its beginning, and gets at most what lies up to its end more than once.
    """
    kept = most // 2
    early, late = lines.where(np.arange(len(lines.source) - kept)), lines.where(np.arange(-kept, 0))
    size = -(-len(early.source) // (most - kept))
    first = np.arange(0, len(early.source), size)
    beyond = np.append(first[1:], len(early.source)) - 1
    reach = early.last[beyond] - early.destination[first]
    merged = early.where(first)._replace(
        length=np.add.reduceat(early.length, first),
        slopes=np.zeros(len(first), np.bool_),
        exact=np.zeros(len(first), np.bool_),
        placement=np.full(len(first), STANDINGS.index(Standing.MERGED)),
        again=np.maximum.reduceat(early.again, first) + reach,
    )
    return _Lines.made(np.concatenate(pair) for pair in zip(merged, late, strict=True)), len(first)
