"""The last copy of each record of a log: a pure function over offsets and identities.

An identity is 64 bits of what makes a record (timestamp, key, value, headers). Records that are the same in all of it
cannot be told apart: of such a record any copy will do, as long as enough of them are delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import Self

Longs: TypeAlias = NDArray[np.int64]

NOWHERE: Final = -1
"""In place of an offset: the record has no copy."""


@dataclass(frozen=True, slots=True)
class Log:
    """Records of one partition, `offsets` increasing; `identities` one for each."""

    offsets: Longs
    identities: Longs

    @classmethod
    def of(cls, offsets: Longs, identities: Longs) -> Self:
        """The log of records that come in any order."""
        order = np.argsort(offsets, kind="stable")
        return cls(offsets[order], identities[order])


def last_copies(source: Log, destination: Log) -> Longs:
    """For each record of `source` the destination offset of its last copy, or NOWHERE.

    Of n records with one identity, the k-th from the end gets the k-th copy from the end: where the head of either log
    is gone this is exact, where the tail has not been copied yet it delivers records again and leaves none out
    (numbering from the start leaves records out). Where their number differs on both sides, order decides: see
    `_in_order`.
    """
    ours, theirs = _Occurrences.of(source), _Occurrences.of(destination)
    place = np.searchsorted(theirs.identities, ours.identities)
    place[place == len(theirs.identities)] = 0
    known = theirs.identities[place] == ours.identities if len(theirs.identities) else np.zeros(len(place), bool)
    copies = np.where(known, theirs.counts[place], 0) if len(theirs.counts) else np.zeros(len(place), np.int64)
    if np.any((ours.counts > 1) & (copies > 0) & (copies != ours.counts)):
        return _in_order(source, destination)
    found = np.full(len(source.offsets), NOWHERE, np.int64)
    group = np.repeat(np.arange(len(ours.counts)), ours.counts)
    from_the_end = np.arange(len(group)) - ours.starts[group]
    has_copy = from_the_end < copies[group]
    at = theirs.starts[place[group[has_copy]]] + from_the_end[has_copy]
    found[ours.latest_first[has_copy]] = destination.offsets[theirs.latest_first[at]]
    return found


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The records of a log by identity: `latest_first` are indices, those of identity i begin at `starts[i]`."""

    latest_first: Longs
    identities: Longs
    starts: Longs
    counts: Longs

    @classmethod
    def of(cls, log: Log) -> Self:
        backwards = np.argsort(log.identities[::-1], kind="stable")
        latest_first = len(log.identities) - 1 - backwards
        identities, starts, counts = np.unique(log.identities[latest_first], return_index=True, return_counts=True)
        return cls(latest_first, identities, starts.astype(np.int64), counts.astype(np.int64))


def _in_order(source: Log, destination: Log) -> Longs:
    """`last_copies` where records that look alike are more or fewer on the other side.

    Backwards through the source, each of several alike gets the last copy that lies before the copies of all records
    that follow it. So whoever reads on from there gets the records in their order, and of those that look alike never
    fewer than there are to come: one is left without a copy only if all copies lie behind that point.
    """
    copies: dict[int, list[int]] = {}
    for offset, identity in zip(destination.offsets.tolist(), destination.identities.tolist(), strict=True):
        copies.setdefault(identity, []).append(offset)
    identities = source.identities.tolist()
    alone = _occur_once(source.identities)
    found = np.full(len(identities), NOWHERE, np.int64)
    earliest = np.iinfo(np.int64).max
    for i in range(len(identities) - 1, -1, -1):
        candidates = copies.get(identities[i], [])
        while candidates and not alone[i] and candidates[-1] >= earliest:
            candidates.pop()
        if candidates:
            found[i] = candidates.pop()
            earliest = min(earliest, found[i])
    return found


def _occur_once(identities: Longs) -> list[bool]:
    _, which, counts = np.unique(identities, return_inverse=True, return_counts=True)
    return list((counts == 1)[which])
