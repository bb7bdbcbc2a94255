"""Digests of buckets: computed where records are read, a few numbers for each bucket, and added up by the driver.

Sums are modulo 2**64. A *moment* of a bucket is a polynomial, modulo a prime: the sum of half an identity times a
generator to the power of the offset. Divided by the generator to the power of `first` it depends on the order of the
records and on the gaps between them, and not on where they begin. A sum of identity times offset would not do: it is
the same for A B B A and B A A B.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tanist.spark.reconciliation.digests import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    import pyarrow as pa
    from numpy.typing import NDArray

    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.time_buckets import TimeBuckets


PRIME: Final = np.uint64(2**31 - 1)
"""Products of two numbers below it fit into 64 bits. As a mask it keeps 31 bits."""
_ORDER: Final = int(PRIME) - 1
_LOW_BITS: Final = 16
_LOW: Final = 1 << _LOW_BITS


class Powers:
    """Of `base`, a number that is not 0 modulo `PRIME`; tables are made when they are first needed."""

    def __init__(self, base: int) -> None:
        self._base = base

    def __call__(self, exponents: Longs) -> NDArray[np.uint64]:
        """`base` to the power of each, modulo `PRIME`; a negative exponent divides (Fermat's little theorem)."""
        reduced = exponents % _ORDER
        found: NDArray[np.uint64] = self._low[reduced & (_LOW - 1)] * self._high[reduced >> _LOW_BITS] % PRIME
        return found

    @cached_property
    def _low(self) -> NDArray[np.uint64]:
        return _first_powers(self._base, _LOW)

    @cached_property
    def _high(self) -> NDArray[np.uint64]:
        return _first_powers(pow(self._base, _LOW, int(PRIME)), _ORDER // _LOW + 1)


def _first_powers(base: int, count: int) -> NDArray[np.uint64]:
    found = np.ones(1, np.uint64)
    while len(found) < count:
        found = np.append(found, found * np.uint64(pow(base, len(found), int(PRIME))) % PRIME)
    return found[:count]


COUNTS: Final = ("records", "stamped", "open")
MOMENTS: Final = {"moment_low": (0, Powers(7)), "moment_high": (33, Powers(1_234_567_891))}
"""By name: by how many bits identities are shifted, of which 31 count, and the generator's powers."""
COLUMNS: Final = (*COUNTS, "first", "last", "mixed", "total", *MOMENTS)
"""`first`, `last`: offsets; `mixed`: of identities, by exclusive or; `total`: their sum."""
_NEVER: Final = np.iinfo(np.int64).max
_LOGS: Final = 1 << 32
"""Of buckets in one log there are fewer."""


class SpanDigests:
    """Of the records of one span so far. Its size depends on the number of buckets alone."""

    def __init__(self, buckets: TimeBuckets) -> None:
        self._buckets = buckets
        self._counts = {name: np.zeros(buckets.count, np.int64) for name in COUNTS}
        self._first, self._last = np.full(buckets.count, _NEVER), np.full(buckets.count, -1)
        self._sums = {name: np.zeros(buckets.count, np.uint64) for name in ("mixed", "total", *MOMENTS)}

    def add(
        self,
        offsets: Longs,
        times: Longs,
        identities: NDArray[np.uint64],
        stamped: NDArray[np.bool_],
        *,
        undecided: bool,
    ) -> None:
        """Some more records, `offsets` increasing; `undecided`: behind the last stable offset."""
        numbers = self._buckets.numbers(times)
        if not len(numbers):
            return
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, offsets, identities, stamped = numbers[order], offsets[order], identities[order], stamped[order]
        begin = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        end = np.append(begin[1:], len(numbers))
        at = numbers[begin]
        self._counts["records"][at] += end - begin
        self._counts["stamped"][at] += np.add.reduceat(stamped, begin, dtype=np.int64)
        self._counts["open"][at] += (end - begin) * undecided
        self._first[at] = np.minimum(self._first[at], offsets[begin])
        self._last[at] = np.maximum(self._last[at], offsets[end - 1])
        self._sums["mixed"][at] ^= np.bitwise_xor.reduceat(identities, begin)
        self._sums["total"][at] += np.add.reduceat(identities, begin)
        for name, (shift, powers) in MOMENTS.items():
            terms = (identities >> np.uint64(shift) & PRIME) * powers(offsets) % PRIME
            self._sums[name][at] = (self._sums[name][at] + np.add.reduceat(terms, begin)) % PRIME

    def rows(self) -> Mapping[str, Any]:
        """Of the buckets that have records, with their numbers."""
        (at,) = np.nonzero(self._counts["records"])
        numbers = self._counts | {"first": self._first, "last": self._last}
        columns = {name: column[at] for name, column in numbers.items()}
        return {"bucket": at, **columns, **{name: column[at].view(np.int64) for name, column in self._sums.items()}}


class _LogDigests(NamedTuple):
    """The digests of one side: `keys` (log and bucket) increase, each of `columns` has a number for each."""

    keys: Longs
    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, rows: pa.Table) -> Self:
        """Rows of one bucket, from several tasks, become one."""
        keys = rows["log"].to_numpy().astype(np.int64) * _LOGS + rows["bucket"].to_numpy()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begin = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
        how = dict.fromkeys(COLUMNS, np.add) | {"first": np.minimum, "last": np.maximum, "mixed": np.bitwise_xor}
        unsigned = {"mixed", "total", *MOMENTS}
        columns = {}
        for name, add in how.items():
            column = rows[name].to_numpy()[order]
            column = column.view(np.uint64) if name in unsigned else column
            columns[name] = add.reduceat(column, begin) if len(keys) else column
        for name, (_, powers) in MOMENTS.items():
            columns[name] = columns[name] % PRIME * powers(-columns["first"]) % PRIME
        return cls(keys[begin], columns)

    def at(self, keys: Longs) -> tuple[NDArray[np.bool_], Mapping[str, NDArray[Any]]]:
        """Which of `keys` are here, and the numbers of each; anything where it is not."""
        if not len(self.keys):
            return np.zeros(len(keys), bool), {name: np.zeros(len(keys), np.int64) for name in self.columns}
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.keys[place] == keys, {name: column[place] for name, column in self.columns.items()}


def compared(source: pa.Table, destination: pa.Table) -> list[Bucket]:
    """Every bucket of two logs, from the rows of their digests: `log`, `bucket`, and `COLUMNS`."""
    ours, theirs = _LogDigests.of(source), _LogDigests.of(destination)
    keys = np.union1d(ours.keys, theirs.keys)
    (here, s), (there, d) = ours.at(keys), theirs.at(keys)
    same = np.logical_and.reduce([s[name] == d[name] for name in ("records", "mixed", "total", *MOMENTS)])
    equal = here & there & same & (s["last"] - s["first"] == d["last"] - d["first"]) & (d["open"] == 0)
    columns = [
        keys // _LOGS,
        keys % _LOGS,
        *_of_side(here, s),
        *_of_side(there, d),
        np.where(there, d["stamped"], 0),
        equal,
    ]
    return [Bucket(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _of_side(there: NDArray[np.bool_], columns: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    records, undecided = (np.where(there, columns[name], 0) for name in ("records", "open"))
    first, last = (columns[name].astype(object) for name in ("first", "last"))
    first[~there] = last[~there] = None
    return [records, first, last, undecided]
