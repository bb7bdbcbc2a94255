"""The records of one log by what makes them: equal ones, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import Self

Longs: TypeAlias = NDArray[np.int64]

NOWHERE: Final = -1
"""In place of an offset: the record has no copy, or is the copy of nothing."""


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

    @classmethod
    def none(cls) -> Self:
        """No record."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The records of a log by identity: `latest_first` are indices, those of identity i begin at `starts[i]`."""

    latest_first: Longs
    identities: Longs
    starts: Longs
    counts: Longs

    @classmethod
    def of(cls, log: Log) -> Self:
        """Of all records of `log`."""
        backwards = np.argsort(log.identities[::-1], kind="stable")
        latest_first = len(log.identities) - 1 - backwards
        identities, starts, counts = np.unique(log.identities[latest_first], return_index=True, return_counts=True)
        return cls(latest_first, identities, starts.astype(np.int64), counts.astype(np.int64))

    def find(self, identities: Longs) -> Longs:
        """Where in `starts` and `counts` each of `identities` is, or NOWHERE."""
        if not len(self.identities):
            return np.full(len(identities), NOWHERE, np.int64)
        at = np.minimum(np.searchsorted(self.identities, identities), len(self.identities) - 1)
        return np.where(self.identities[at] == identities, at, NOWHERE).astype(np.int64)

    def counts_at(self, at: Longs) -> Longs:
        """How many there are of identities that `find` has found."""
        return self.counts[at] if len(self.counts) else np.zeros(len(at), np.int64)

    def groups(self) -> Longs:
        """For each of `latest_first` which identity it has."""
        return np.repeat(np.arange(len(self.counts)), self.counts)
