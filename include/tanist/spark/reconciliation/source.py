"""Many logs as two kinds of frames, read by few tasks: digests of buckets, and records. No payload enters the JVM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tanist.spark.log_source import loaded, tasks
from tanist.spark.reconciliation.bucket_digests import COLUMNS, SpanDigests
from tanist.spark.record_source import ROWS, RecordReader, mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import TopicPartition
    from tanist.spark.columns import Columns
    from tanist.spark.reconciliation.digests import Bucket
    from tanist.spark.reconciliation.pairing import Longs
    from tanist.spark.reconciliation.time_buckets import TimeBuckets
    from tanist.spark.record_source import Portion
    from tanist.spark.spans import Span

DIGESTS: Final = f"log int, bucket bigint, {', '.join(f'{name} bigint' for name in COLUMNS)}, trouble string"
"""A row for each bucket that a span has records of: rows of several spans are added up."""
RECORDS: Final = "log int, bucket bigint, part bigint, offset bigint, open boolean, identity bigint, trouble string"
"""`log`: the number of a partition of a pair; `part`: by identity, of a large bucket; `open`: behind the last stable
offset; `identity`: of time and content; `trouble`: this log could not be read to its end, and why."""
UNREAD: Final = {"bucket": [-1], "part": [0]}
"""Of a row that has trouble."""
_NEAR: Final = 20_000
"""Offsets between buckets that are read, and left out, rather than asked for around them."""


@dataclass(frozen=True, slots=True)
class BucketedLogs:
    """Logs of one cluster that are read: what of each, and the buckets by number of a log."""

    endpoint: Endpoint
    spans: Sequence[tuple[int, Span]]
    buckets: Mapping[int, TimeBuckets]

    def within(self, ranges: Mapping[int, Sequence[tuple[int, int]]]) -> BucketedLogs:
        """Only the offsets of some ranges [from, to) of each log."""
        found = [
            (log, replace(span, start=max(start, span.start), until=min(until, span.until)))
            for log, span in self.spans
            for start, until in ranges.get(log, ())
            if max(start, span.start) < min(until, span.until)
        ]
        return replace(self, spans=found)


class _LogReader(RecordReader):
    """Knows a partition's log by its number."""

    def __init__(
        self, logs: BucketedLogs, tasks: Sequence[tuple[Span, ...]], schema: str, rows: Callable[..., Any]
    ) -> None:
        super().__init__(logs.endpoint, tasks, schema, rows)
        self._logs = {span.partition: log for log, span in logs.spans}

    def batch(self, at: TopicPartition, found: Mapping[str, Any]) -> pa.RecordBatch:
        count = len(next(iter(found.values())))
        return super().batch(at, {**UNREAD, **found, "log": np.full(count, self._logs[at], np.int32)})


class _DigestRows:
    def __init__(self, buckets: Mapping[TopicPartition, TimeBuckets]) -> None:
        self._buckets = buckets

    def __call__(self, span: Span, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
        digests = SpanDigests(self._buckets[span.partition])
        for records, stamped, *_ in found:
            digests.add(records.offsets, records.times, identities(records), stamped, undecided=span.undecided)
        yield digests.rows()


class _RecordRows:
    """Records of the buckets that have a number of parts."""

    def __init__(self, buckets: Mapping[TopicPartition, tuple[TimeBuckets, Longs]]) -> None:
        self._buckets = buckets

    def __call__(self, span: Span, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
        buckets, parts = self._buckets[span.partition]
        for records, *_ in found:
            numbers = buckets.numbers(records.times)
            chosen = np.flatnonzero(parts[numbers])
            numbers, identity = numbers[chosen], identities(records)[chosen].view(np.int64)
            columns = {
                "bucket": numbers,
                "part": identity % parts[numbers],
                "offset": records.offsets[chosen],
                "open": np.full(len(chosen), span.undecided),
                "identity": identity,
            }
            for first in range(0, len(chosen), ROWS):
                yield {name: column[first : first + ROWS] for name, column in columns.items()}


def identities(records: Columns) -> NDArray[np.uint64]:
    """The time is part of the identity, so that records alike lie in one bucket."""
    return mixed(records.times, records.content)


def digest_frame(spark: SparkSession, name: str, logs: BucketedLogs) -> DataFrame:
    """The digests of `logs`, of schema `DIGESTS`; `name` is the format's, one for each frame."""
    rows = _DigestRows({span.partition: logs.buckets[log] for log, span in logs.spans})
    return _frame(spark, name, logs, DIGESTS, rows)


def record_frame(spark: SparkSession, name: str, logs: BucketedLogs, parts: Mapping[int, Longs]) -> DataFrame:
    """Records of `logs`, of schema `RECORDS`: those of buckets that have a number of `parts`."""
    rows = _RecordRows({span.partition: (logs.buckets[log], parts[log]) for log, span in logs.spans})
    return _frame(spark, name, logs, RECORDS, rows)


def _frame(spark: SparkSession, name: str, logs: BucketedLogs, schema: str, rows: Callable[..., Any]) -> DataFrame:
    reads = _LogReader(logs, tasks(spark, [span for _, span in logs.spans]), schema, rows)
    return loaded(spark, name, reads, schema)


def ranges(buckets: Iterable[Bucket], of: int) -> dict[int, list[tuple[int, int]]]:
    """By log the offsets [from, to) of the source (0) or the destination (1) that have all records of `buckets`."""
    found: dict[int, list[tuple[int, int]]] = {}
    for bucket in sorted(buckets, key=lambda each: each.offsets(of) or (0, 0)):
        if (offsets := bucket.offsets(of)) is None:
            continue
        own = found.setdefault(bucket.log, [])
        start, until = offsets[0], offsets[1] + 1
        if own and start <= own[-1][1] + _NEAR:
            own[-1] = own[-1][0], max(until, own[-1][1])
        else:
            own.append((start, until))
    return found
