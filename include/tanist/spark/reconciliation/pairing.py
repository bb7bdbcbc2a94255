"""The last copy of each record of a log: a pure function over offsets and identities.

An identity is 64 bits of what makes a record (timestamp, key, value, headers). Records that are the same in all of it
cannot be told apart: of such a record any copy will do, as long as enough of them are delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tanist.spark.reconciliation.attribution import earliest_copies
from tanist.spark.reconciliation.occurrences import NOWHERE, Log, Longs, Occurrences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_NEVER: Final = np.iinfo(np.int64).max
_AT_ONCE: Final = 100_000


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two logs, record by record.

    `copies`: for each record of the source its copy, or NOWHERE. `extras`: offsets of the other records of the
    destination; `origins`: of each of these the first record of the source that is like it, or NOWHERE. `earliest`: for
    each record of the source as `attribution.earliest_copies` says.
    """

    copies: Longs
    extras: Longs
    origins: Longs
    earliest: Longs


def pair(source: Log, destination: Log, undecided: Log | None = None) -> Pairs:
    """Each record of `source` with its last copy in `destination`, and what that holds besides.

    Of n records and m copies with one identity, the last min(n, m) records have a copy: where the head of either log
    is gone, or the tail is not copied yet, records are delivered again and none is left out. The k-th of them from the
    end gets the k-th copy from the end; where n and m differ, order decides: see `_in_order`.

    `undecided`: records of the destination whose transaction is open. They may never be delivered, so that they are
    nobody's copy.
    """
    ours, theirs = Occurrences.of(source), Occurrences.of(destination)
    copies_of, group = theirs.find(ours.identities), ours.groups()
    many = np.where(copies_of == NOWHERE, 0, theirs.counts_at(copies_of))
    from_the_end = np.arange(len(group)) - ours.starts[group]
    has_copy = from_the_end < many[group]
    rank = np.full(len(group), NOWHERE, np.int64)
    rank[has_copy] = theirs.starts[copies_of[group[has_copy]]] + from_the_end[has_copy]
    copies = np.full(len(group), NOWHERE, np.int64)
    copies[ours.latest_first[has_copy]] = theirs.latest_first[rank[has_copy]]
    unsure = (ours.counts > 1) & (many > 0) & (many != ours.counts)
    if unsure.any():
        copies = _in_order(ours, theirs, copies_of, unsure, copies)
    alone = np.ones(len(destination.offsets), bool)
    alone[copies[copies != NOWHERE]] = False
    more = Log.none() if undecided is None else undecided
    extras = np.concatenate((destination.offsets[alone], more.offsets))
    like = ours.find(np.concatenate((destination.identities[alone], more.identities)))
    origins = np.full(len(like), NOWHERE, np.int64)
    known = like != NOWHERE
    earliest = ours.latest_first[ours.starts[like[known]] + ours.counts[like[known]] - 1]
    origins[known] = source.offsets[earliest]
    found = np.full(len(copies), NOWHERE, np.int64)
    found[copies != NOWHERE] = destination.offsets[copies[copies != NOWHERE]]
    return Pairs(found, extras, origins, earliest_copies(source, destination))


def _in_order(
    ours: Occurrences, theirs: Occurrences, copies_of: Longs, unsure: NDArray[np.bool_], fixed: Longs
) -> Longs:
    """`fixed` (indices of copies), but the copies of `unsure` identities: there order decides.

    Backwards through the source, each of several alike gets the last copy that lies before the copies of all records
    that follow it. So whoever reads on from there gets the records in their order. Copies that are left go to the
    latest records that are left: all lie behind a copy of a later record, no position moves for them.
    """
    which = ours.groups()
    chosen = unsure[which]
    records, groups = ours.latest_first[chosen], which[chosen]
    copies = fixed.copy()
    copies[records] = NOWHERE
    latest_first = np.argsort(-records)
    taken = np.zeros(len(theirs.latest_first), bool)
    following = _smallest_following(copies)
    position, last = theirs.starts[copies_of.clip(0)].copy(), (theirs.starts + theirs.counts)[copies_of.clip(0)]
    at, until, offsets = position.data, last.data, theirs.latest_first.data
    earliest = _NEVER
    for record, group, limit in _rows(records[latest_first], groups[latest_first], following):
        earliest = min(earliest, limit)
        here, end = at[group], until[group]
        while here < end and offsets[here] >= earliest:
            here += 1
        if here < end:
            earliest = copies[record] = offsets[here]
            taken[here] = True
            here += 1
        at[group] = here
    _give_the_rest(ours, theirs, copies_of, unsure, copies, taken)
    return copies


def _smallest_following(copies: Longs) -> Longs:
    """For each record the first copy of all that follow it."""
    known = np.where(copies == NOWHERE, _NEVER, copies)
    return np.append(np.minimum.accumulate(known[::-1])[::-1][1:], _NEVER)


def _rows(records: Longs, groups: Longs, following: Longs) -> Iterator[tuple[int, int, int]]:
    """In portions: as Python's numbers all at once would be a gigabyte for some millions."""
    for start in range(0, len(records), _AT_ONCE):
        portion = slice(start, start + _AT_ONCE)
        yield from zip(
            records[portion].tolist(), groups[portion].tolist(), following[records[portion]].tolist(), strict=True
        )


def _give_the_rest(
    ours: Occurrences,
    theirs: Occurrences,
    copies_of: Longs,
    unsure: NDArray[np.bool_],
    copies: Longs,
    taken: NDArray[np.bool_],
) -> None:
    """The k-th record without a copy from the end gets the k-th copy from the end that nobody has."""
    which = ours.groups()
    left = unsure[which] & (copies[ours.latest_first] == NOWHERE)
    records, groups = ours.latest_first[left], copies_of[which[left]]
    wanted = np.zeros(len(theirs.counts), bool)
    wanted[copies_of[unsure]] = True
    theirs_of = theirs.groups()
    free = wanted[theirs_of] & ~taken
    indices, owners = theirs.latest_first[free], theirs_of[free]
    order = np.argsort(groups, kind="stable")
    records, groups = records[order], groups[order]
    rank = np.arange(len(groups)) - np.searchsorted(groups, groups)
    place = np.searchsorted(owners, groups) + rank
    has = place < np.searchsorted(owners, groups, side="right")
    copies[records[has]] = indices[place[has]]
