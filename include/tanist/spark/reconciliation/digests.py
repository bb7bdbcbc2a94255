"""Which buckets of two logs need no pairing: a bucket whose digests agree is one run, without a look at its records.

A bucket holds the records of a log whose timestamps lie in one window. Offsets of neighbouring buckets interleave where
timestamps are out of order, so a bucket may be sparse: a run that spans foreign offsets is right only if those
advance in the same step.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tanist.spark.reconciliation.pairing import NOWHERE
from tanist.spark.reconciliation.runs import Runs, merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Bucket(NamedTuple):
    """Both sides of one bucket. Offsets are those of the first and last record, None where a side has no record.

    `equal`: same records in the same order, with the same gaps between them. `stamped`: records whose time the
    destination's broker has set.
    """

    log: int
    bucket: int
    source_records: int
    source_first: int | None
    source_last: int | None
    destination_records: int
    destination_first: int | None
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


@dataclass(frozen=True, slots=True)
class SortedOut:
    """What the digests tell: runs by log, and the buckets whose records must be paired."""

    runs: Mapping[int, Runs]
    to_pair: tuple[Bucket, ...]


def sort_out(buckets: Iterable[Bucket]) -> SortedOut:
    """Runs of the buckets that speak for themselves, and the others."""
    logs: dict[int, list[Bucket]] = defaultdict(list)
    for bucket in buckets:
        if bucket.source_first is not None:
            logs[bucket.log].append(bucket)
    runs: dict[int, Runs] = {}
    to_pair: list[Bucket] = []
    for log, found in logs.items():
        found.sort(key=lambda bucket: (bucket.source_first, bucket.bucket))
        mixed = _mixed(found)
        runs[log] = merge(_run(bucket) for bucket, is_mixed in zip(found, mixed, strict=True) if not is_mixed)
        to_pair += [bucket for bucket, is_mixed in zip(found, mixed, strict=True) if is_mixed]
    return SortedOut(runs, tuple(to_pair))


def _mixed(buckets: Sequence[Bucket]) -> list[bool]:
    """Which of the buckets (by first offset) differ, or are sparse and span offsets of one that goes another way."""
    mixed = [bucket.distance is None and not bucket.lost for bucket in buckets]
    differs = list(mixed)
    around: list[int] = []
    for i, bucket in enumerate(buckets):
        around = [j for j in around if (buckets[j].source_last or 0) > (bucket.source_first or 0)]
        for j in around:
            if differs[i] or differs[j] or buckets[j].distance != bucket.distance:
                mixed[i], mixed[j] = mixed[i] or _sparse(bucket), mixed[j] or _sparse(buckets[j])
        around.append(i)
    return mixed


def _sparse(bucket: Bucket) -> bool:
    return bucket.source_records != _length(bucket)


def _length(bucket: Bucket) -> int:
    return (bucket.source_last or 0) - (bucket.source_first or 0) + 1


def _run(bucket: Bucket) -> Runs:
    there = NOWHERE if bucket.destination_first is None else bucket.destination_first
    row = (bucket.source_first or 0, there, _length(bucket), bucket.source_records)
    return Runs(*(np.array([column], np.int64) for column in row))
