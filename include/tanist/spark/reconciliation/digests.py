"""Which buckets of two logs need no pairing: a bucket whose digests agree is one run, without a look at its records.

A bucket holds the records of a log whose timestamps lie in one window. Offsets of neighbouring buckets interleave where
timestamps are out of order, so a bucket may be sparse: a run that spans foreign offsets is right only if those
advance in the same step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tanist.spark.reconciliation.occurrences import NOWHERE
from tanist.spark.reconciliation.runs import Runs, merge_extras, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Bucket(NamedTuple):
    """Both sides of one bucket. Offsets are those of the first and last record, None where a side has no record.

    `equal`: same records in the same order, with the same gaps between them, none of the destination's undecided.
    `stamped`: records whose time the destination's broker has set. `source_open`, `destination_open`: of the records,
    those whose transaction is open or lies behind an open one.
    """

    log: int
    bucket: int
    source_records: int
    source_first: int | None
    source_last: int | None
    source_open: int
    destination_records: int
    destination_first: int | None
    destination_last: int | None
    destination_open: int
    stamped: int
    equal: bool

    @property
    def distance(self) -> int | None:
        """From a record to its copy; None where the digests do not tell."""
        if not self.equal or self.source_first is None or self.destination_first is None:
            return None
        return self.destination_first - self.source_first

    @property
    def lost(self) -> bool:
        return self.destination_first is None

    @property
    def foreign(self) -> bool:
        return self.source_first is None

    def offsets(self, of: int) -> tuple[int, int] | None:
        """Of the first and the last record of the source (0) or of the destination (1); None: it has none."""
        first, last = (self.destination_first, self.destination_last) if of else (self.source_first, self.source_last)
        return None if first is None or last is None else (first, last)

    @property
    def crosses_end(self) -> bool:
        """Whether it has records of the source on both sides of its last stable offset."""
        return 0 < self.source_open < self.source_records


@dataclass(frozen=True, slots=True)
class SortedOut:
    """What the digests tell: runs and extras by log, and the buckets whose records must be paired."""

    runs: Mapping[int, Runs]
    extras: Mapping[int, Runs]
    to_pair: tuple[Bucket, ...]


def sort_out(buckets: Iterable[Bucket], cuts: Mapping[int, Sequence[int]] = MappingProxyType({})) -> SortedOut:
    """Runs of the buckets that speak for themselves, and the others.

    `cuts`: by log, source offsets across which no sparse run without a copy may reach.
    """
    logs: dict[int, list[Bucket]] = defaultdict(list)
    alone: dict[int, list[Bucket]] = defaultdict(list)
    for bucket in buckets:
        (alone if bucket.foreign else logs)[bucket.log].append(bucket)
    runs: dict[int, Runs] = {}
    to_pair: list[Bucket] = []
    for log, found in logs.items():
        found.sort(key=lambda bucket: (bucket.source_first, bucket.bucket))
        mixed = [
            is_mixed or _cut(bucket, cuts.get(log, ())) for is_mixed, bucket in zip(_mixed(found), found, strict=True)
        ]
        runs[log] = together(_run(bucket) for bucket, is_mixed in zip(found, mixed, strict=True) if not is_mixed)
        to_pair += [bucket for bucket, is_mixed in zip(found, mixed, strict=True) if is_mixed]
    extras: dict[int, Runs] = {}
    for log, found in alone.items():
        extras[log] = merge_extras(_alone(bucket) for bucket in found if not _gaps(bucket))
        to_pair += [bucket for bucket in found if _gaps(bucket)]
    return SortedOut(runs, extras, tuple(to_pair))


def _mixed(buckets: Sequence[Bucket]) -> list[bool]:
    """Which of the buckets (by first offset) differ, or are sparse and span offsets of one that goes another way.

    Each is held against those that begin before it ends, and against the two that reach farthest of those before it:
    of two with different ways one is not its own.
    """
    ways: list[object] = [
        object() if bucket.crosses_end or (bucket.distance is None and not bucket.lost) else bucket.distance
        for bucket in buckets
    ]
    mixed = [bucket.crosses_end or (bucket.distance is None and not bucket.lost) for bucket in buckets]
    starts = [bucket.source_first or 0 for bucket in buckets]
    changes = _changes(ways)
    farthest: list[tuple[int, object]] = []
    for i, bucket in enumerate(buckets):
        until = bucket.source_last or 0
        ahead = changes[i] < len(buckets) and starts[changes[i]] < until
        behind = any(last > starts[i] and way != ways[i] for last, way in farthest)
        mixed[i] = mixed[i] or ((ahead or behind) and _sparse(bucket))
        farthest = _two_farthest([*farthest, (until, ways[i])])
    return mixed


def _changes(ways: Sequence[object]) -> list[int]:
    """For each the place of the next one that differs; behind the last where none does."""
    found = [len(ways)] * len(ways)
    for i in range(len(ways) - 2, -1, -1):
        found[i] = found[i + 1] if ways[i] == ways[i + 1] else i + 1
    return found


def _two_farthest(reached: list[tuple[int, object]]) -> list[tuple[int, object]]:
    """Of at most three the two that reach farthest and go different ways."""
    by_way: dict[object, int] = {}
    for last, way in reached:
        by_way[way] = max(last, by_way.get(way, last))
    return sorted(((last, way) for way, last in by_way.items()), key=lambda each: -each[0])[:2]


def _cut(bucket: Bucket, cuts: Sequence[int]) -> bool:
    """Whether a bucket without copies does not tell how many of its records lie on either side of a cut."""
    first, last = bucket.source_first or 0, bucket.source_last or 0
    return bucket.lost and _sparse(bucket) and any(first < cut <= last for cut in cuts)


def _sparse(bucket: Bucket) -> bool:
    return bucket.source_records != _length(bucket)


def _length(bucket: Bucket) -> int:
    return (bucket.source_last or 0) - (bucket.source_first or 0) + 1


def _gaps(bucket: Bucket) -> bool:
    """Whether records of others may lie between those of a bucket that only the destination has."""
    return bucket.destination_records != (bucket.destination_last or 0) - (bucket.destination_first or 0) + 1


def _alone(bucket: Bucket) -> Runs:
    row = (NOWHERE, bucket.destination_first or 0, bucket.destination_records, bucket.destination_records)
    return Runs(*(np.array([column], np.int64) for column in row))


def _run(bucket: Bucket) -> Runs:
    there = NOWHERE if bucket.destination_first is None else bucket.destination_first
    row = (bucket.source_first or 0, there, _length(bucket), bucket.source_records)
    return Runs(*(np.array([column], np.int64) for column in row))
