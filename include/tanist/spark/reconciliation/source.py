"""Many logs as two kinds of frames, read by few tasks: digests of buckets, and records. No payload enters the JVM."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.wire.requests import fetch
from tanist.ports.clock import Deadline
from tanist.spark.log_source import loaded, tasks
from tanist.spark.reconciliation.bucket_digests import COLUMNS, SpanDigests
from tanist.spark.reconciliation.time_buckets import TimeSample
from tanist.spark.record_source import ROWS, RecordReader, mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.spark.columns import Columns
    from tanist.spark.reconciliation.digests import Bucket
    from tanist.spark.reconciliation.occurrences import Longs
    from tanist.spark.reconciliation.time_buckets import TimeBuckets
    from tanist.spark.record_source import Portion
    from tanist.spark.spans import LogSpan


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
    spans: Sequence[tuple[int, LogSpan]]
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
        self, logs: BucketedLogs, tasks: Sequence[tuple[LogSpan, ...]], schema: str, rows: Callable[..., Any]
    ) -> None:
        super().__init__(logs.endpoint, tasks, schema, rows)
        self._logs = {span.partition: log for log, span in logs.spans}

    def batch(self, at: TopicPartition, found: Mapping[str, Any]) -> pa.RecordBatch:
        count = len(next(iter(found.values())))
        return super().batch(at, {**UNREAD, **found, "log": np.full(count, self._logs[at], np.int32)})


class _DigestRows:
    def __init__(self, buckets: Mapping[TopicPartition, TimeBuckets]) -> None:
        self._buckets = buckets

    def __call__(self, span: LogSpan, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
        digests = SpanDigests(self._buckets[span.partition])
        for records, stamped, *_ in found:
            digests.add(records.offsets, records.times, identities(records), stamped, undecided=span.undecided)
        yield digests.rows()


class _RecordRows:
    """Records of the buckets that have a number of parts."""

    def __init__(self, buckets: Mapping[TopicPartition, tuple[TimeBuckets, Longs]]) -> None:
        self._buckets = buckets

    def __call__(self, span: LogSpan, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
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


_MOST: Final = 17
_ENDS: Final = (1 / 256, 255 / 256)
"""Of a log: a broken clock at either end makes a bucket of no more."""
_BYTES: Final = 64 << 10
"""Of each log in one answer. A broker leaves larger batches out, but that of the first partition."""
_SECONDS: Final = 10.0


def sampled(router: Router, spans: Sequence[LogSpan], size: int) -> Mapping[TopicPartition, TimeSample]:
    """Of those spans that are more than one bucket of `size` records; whose batches are not had have fewer times."""
    by = Deadline(time.monotonic() + _SECONDS)
    looks = {span.partition: looks_at(span, size) for span in spans}
    found = defaultdict[TopicPartition, list[tuple[int, int]]](list)
    for n in range(_MOST + len(_ENDS)):
        asked = {at: offsets[n] for at, offsets in looks.items() if n < len(offsets)}
        for at, when in _times(router, asked, by).items():
            found[at].append((asked[at], when))
    ends = {span.partition: span.until for span in spans}
    return {at: _sample(times, ends[at]) for at, times in found.items()}


def _sample(found: Sequence[tuple[int, int]], end: int) -> TimeSample:
    offsets, times = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return TimeSample(times, np.diff(np.append(offsets, end)))


def looks_at(span: LogSpan, size: int) -> Sequence[int]:
    """Offsets, the more the longer `span` is; none of a log that is to be one bucket."""
    length = span.until - span.start
    if length <= 2 * size:
        return ()
    shares = np.linspace(0, 1, min(_MOST, 2 + length // size)).tolist()
    return sorted({span.start + int((length - 1) * share) for share in (*shares, *_ENDS)})


def _times(router: Router, offsets: Mapping[TopicPartition, int], by: Deadline) -> dict[TopicPartition, int]:
    """The first time of the batch at each offset; large batches are had one after the other."""
    found = _fetched(router, offsets, by)
    for at, offset in offsets.items():
        if at not in found and by.left(time.monotonic()):
            found |= _fetched(router, {at: offset}, by)
    return found


def _fetched(router: Router, offsets: Mapping[TopicPartition, int], by: Deadline) -> dict[TopicPartition, int]:
    if not offsets:
        return {}
    try:
        answers = fetch(router, offsets, by, FetchLimits(max_wait_ms=0, max_bytes=_BYTES * len(offsets)), _BYTES)
    except Stopped:
        raise
    except TanistError:
        return {}
    times = {at: _first_time(answer) for at, answer in answers.items()}
    return {at: when for at, when in times.items() if when is not None}


def _first_time(answer: FetchedPartition | TanistError) -> int | None:
    if isinstance(answer, TanistError):
        return None
    with suppress(TanistError):  # it is damaged
        for header, _ in split(answer.records):
            return header.base_timestamp
    return None
