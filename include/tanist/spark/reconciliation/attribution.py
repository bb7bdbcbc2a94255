"""Records that are the same in everything, copied more than once: where the last copy of each may lie at the earliest.

A copier that loses nothing writes the records in order, and may go back any number of times: the next record that it
writes is at most the next of the source. An *attribution* gives each destination record a source record that is the
same, by this rule. Where several are possible nobody can tell which is true, so a position rests on the earliest.
The rule holds for any part of the records of a source, too: whatever lies between two records is written between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tanist.spark.reconciliation.occurrences import NOWHERE, Occurrences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tanist.spark.reconciliation.occurrences import Log, Longs

_NEVER: Final = np.iinfo(np.int64).max


def earliest_copies(source: Log, destination: Log) -> Longs:
    """For each source record the first offset that may be that of its last copy; NOWHERE: `pair` says which it is.

    Open are records of which the source has several. Where the copier has left records out, its rule does not hold:
    then only those of which the destination has more than the source, and the n-th of these has the n-th copy at least.
    """
    found = np.full(len(source.offsets), NOWHERE, np.int64)
    ours, theirs = Occurrences.of(source), Occurrences.of(destination)
    copies_of = theirs.find(ours.identities)
    many = np.where(copies_of == NOWHERE, 0, theirs.counts_at(copies_of))
    several = (ours.counts > 1) & (many > 0)
    if not several.any():
        return found
    copied = _CopiedRecords.of(ours, theirs, many > 0)
    highest, which = copied.highest(), copied.classes_of_source
    if copied.jumps(highest):
        wanted = np.flatnonzero((several & (many > ours.counts))[which])
        places = copied.in_turn(wanted)
    else:
        wanted = np.flatnonzero(several[which])
        places = copied.earliest(wanted, highest)
    known = places != NOWHERE
    found[copied.records[wanted[known]]] = destination.offsets[copied.copies[places[known]]]
    return found


@dataclass(frozen=True, slots=True)
class _CopiedRecords:
    """The records that both sides have, in order. A record's *rank* is its place in `records`.

    `records`, `copies`: indices in the logs; `classes_of_source`, `classes`: which identity each of them has, by the
    numbers of the source's. `ranks`: of all records, by identity and rank; those of identity i begin at `starts[i]`.
    """

    records: Longs
    copies: Longs
    classes_of_source: Longs
    classes: Longs
    ranks: Longs
    starts: Longs

    @classmethod
    def of(cls, ours: Occurrences, theirs: Occurrences, copied: NDArray[np.bool_]) -> _CopiedRecords:
        which = np.empty(len(ours.latest_first), np.int64)
        which[ours.latest_first] = ours.groups()
        records = np.flatnonzero(copied[which])
        of_theirs = np.empty(len(theirs.latest_first), np.int64)
        of_theirs[theirs.latest_first] = ours.find(theirs.identities)[theirs.groups()]
        copies = np.flatnonzero(of_theirs != NOWHERE)
        classes = which[records]
        return cls(
            records=records,
            copies=copies,
            classes_of_source=classes,
            classes=of_theirs[copies],
            ranks=np.argsort(classes, kind="stable"),
            starts=np.searchsorted(np.sort(classes), np.arange(len(ours.counts) + 1)),
        )

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Which copies are of a record like no other of the source."""
        return np.asarray(np.diff(self.starts)[self.classes] == 1, np.bool_)

    def highest(self) -> Longs:
        """For each copy the last record that it can be: the next after the highest of the one before, or an earlier.

        Where a copier has left records out there is no such record; then it is the next one.
        """
        found = np.where(self.alone, self.ranks[self.starts[self.classes]], NOWHERE)
        ranks, starts, at = self.ranks.data, self.starts.data, found.data
        for copy, of in self._several():
            first, until = starts[of], starts[of + 1]
            limit = at[copy - 1] + 1 if copy else _NEVER  # what was copied before may be deleted
            at[copy] = ranks[max(first, _behind(ranks, first, until, limit) - 1)]
        return found

    def lowest(self) -> Longs:
        """For each copy the first record that it can be: the one before the lowest of the next, or a later."""
        found = np.where(self.alone, self.ranks[self.starts[self.classes]], NOWHERE)
        ranks, starts, at = self.ranks.data, self.starts.data, found.data
        last = len(found) - 1
        for copy, of in reversed(self._several()):
            first, until = starts[of], starts[of + 1]
            limit = at[copy + 1] - 2 if copy < last else NOWHERE
            at[copy] = ranks[min(until - 1, _behind(ranks, first, until, limit))]
        return found

    def _several(self) -> list[tuple[int, int]]:
        """The copies that can be of several records, with their classes."""
        chosen = np.flatnonzero(~self.alone)
        return list(zip(chosen.tolist(), self.classes[chosen].tolist(), strict=True))

    def jumps(self, highest: Longs) -> bool:
        """Whether the copier has left out a record that it has copied another time."""
        return bool(np.any(np.diff(highest) > 1))

    def earliest(self, wanted: Longs, highest: Longs) -> Longs:
        """For each rank the place of its last certain copy, otherwise where it can have been copied first."""
        reached = np.maximum.accumulate(highest)
        first = np.searchsorted(reached, wanted)
        certain = np.full(len(self.records), NOWHERE, np.int64)
        sure = np.flatnonzero(highest == self.lowest())
        certain[highest[sure]] = sure  # the last one of several wins
        return np.where(first < len(highest), np.maximum(first, certain[wanted]), NOWHERE)

    def in_turn(self, wanted: Longs) -> Longs:
        """For each rank, the n-th of those alike, the n-th copy."""
        order = np.argsort(self.classes, kind="stable")
        begins = np.searchsorted(self.classes[order], self.classes_of_source[wanted])
        turn = np.empty(len(self.ranks), np.int64)
        turn[self.ranks] = np.arange(len(self.ranks)) - self.starts[self.classes_of_source[self.ranks]]
        return np.asarray(order[begins + turn[wanted]], np.int64)


def _behind(ranks: memoryview, first: int, until: int, limit: int) -> int:
    """The place in `ranks`, from `first` up to `until`, behind all that are at most `limit`."""
    while first < until:
        middle = (first + until) // 2
        if ranks[middle] <= limit:
            first = middle + 1
        else:
            until = middle
    return first
