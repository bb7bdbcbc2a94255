"""Records of Kafka logs as data sources of Spark, read by our own batch reader: a row a record, or a row a bucket.

`frame` has a row for each record. `digests` has one for `BUCKET` offsets of the copy, and no record enters the
JVM. Both read many partitions in one task, and end with rows that say which partition could not be read, and why
(`trouble`): a partition fails alone.

A worker holds one fetch answer (4 MiB, or one batch if that is larger), `AT_ONCE` bytes of records and one batch more,
decompressed (at most `codecs.MOST`), and the columns of `FLUSH` records and one batch more, however long the logs are.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tanist.domain.errors import TanistError
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.spark.columns import Columns, body_of, columns
from tanist.spark.log_source import ReadTask, SpanReader, arrow_schema, loaded
from tanist.spark.reading import PATIENCE_SECONDS, changed_topics, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import InputPartition

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.spark.columns import Numbers
    from tanist.spark.reading import Read
    from tanist.spark.spans import LogSpan

BUCKET: Final = 10_000
"""Offsets under one digest."""
FLUSH: Final = 50_000
"""Records that are turned into rows at once."""
AT_ONCE: Final = 1 << 20
"""Bytes of records, decompressed, whose columns are made at once."""
ROWS: Final = 10_000
"""Rows of records that Spark takes in one piece."""
RECORD_SCHEMA: Final = (
    "topic string, partition int, pending boolean, place bigint, offset bigint, length bigint, records bigint, "
    "content bigint, size bigint, time bigint, stamped boolean, trouble string"
)
"""`place`: where it lies in the copy, or must lie; `pending`: the copy ends before that; `length` and `records` are 1;
`content`, `size`, `time`: as `columns` tells; `stamped`: the broker has set the time (LogAppendTime)."""
DIGEST_SCHEMA: Final = (
    "topic string, partition int, bucket bigint, records bigint, batches bigint, size bigint, stamped bigint, "
    "content bigint, content_sum bigint, time bigint, time_sum bigint, trouble string"
)
"""Of one bucket several rows: numbers are added, `content` and `time` combined by exclusive or. `size` is as stored."""
_LOW: Final = np.uint64(0xFFFF_FFFF)
_STEPS: Final = tuple(map(np.uint64, (0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)))

_Wanted: TypeAlias = "Mapping[TopicPartition, Numbers] | None"


class Portion(NamedTuple):
    """Committed records of one span, in order: `batches` of them, of `size` bytes as they are stored."""

    records: Columns
    stamped: np.ndarray[Any, np.dtype[np.bool_]]
    batches: int
    size: int


class RecordReader(SpanReader):
    """Reads rows of `schema`: the columns that `rows` makes of a span and the portions of its records."""

    def __init__(
        self, endpoint: Endpoint, tasks: Sequence[tuple[LogSpan, ...]], schema: str, rows: Callable[..., Any]
    ) -> None:
        super().__init__(endpoint, tasks)
        self._schema, self._rows = arrow_schema(schema), rows

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ReadTask):  # without any task Spark asks for None
            return
        with closing(Router(self._endpoint, "tanist-spark")) as router:
            yield from _joined(self._read(router, partition.spans))

    def _read(self, router: Router, spans: tuple[LogSpan, ...]) -> Iterator[pa.RecordBatch]:
        failed: dict[TopicPartition, str] = {}
        for span in spans:
            try:
                for found in self._rows(span, self.records(router, span)):
                    yield self.batch(span.at, found)
            except TanistError as trouble:
                failed[span.at] = str(trouble)
        for span, changed in changed_topics(router, spans, Deadline(time.monotonic() + PATIENCE_SECONDS)):
            failed.setdefault(span.at, str(changed))
        for at, why in failed.items():
            yield self.batch(at, {"trouble": [why]})

    def records(self, router: Router, span: LogSpan) -> Iterator[Any]:
        """What `rows` takes: portions."""
        for portion in portions(router, span):
            self.count(portion.size)
            yield portion

    def batch(self, at: TopicPartition, found: Mapping[str, Any]) -> pa.RecordBatch:
        """Rows of one partition; a column that is not `found` is null."""
        count = len(next(iter(found.values())))
        values = {
            "topic": pa.repeat(at.topic, count),
            "partition": pa.repeat(pa.scalar(at.partition, pa.int32()), count),
        }
        arrays = [
            values[field.name] if field.name in values else _array(found.get(field.name), field.type, count)
            for field in map(self._schema.field, range(len(self._schema)))
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _joined(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of many small partitions in one piece: each costs Spark about a millisecond."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for each in found:
        held.append(each)
        rows += each.num_rows
        if rows >= ROWS:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, rows = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if values is None else pa.array(values, kind)


def portions(router: Router, span: LogSpan) -> Iterator[Portion]:
    """The records of `span` that a reader of committed records gets, some `FLUSH` at a time. Raises as `read`."""
    held: list[Columns] = []
    stamped: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    batches = size = count = 0
    for answer in read(router, span):
        for chosen in _at_once(each for each in answer if each.seen and each.header.record_count):
            headers = [header for header, _ in chosen]
            found = columns(chosen)
            inside = (found.offsets >= span.start if span.first else True) & (found.offsets < span.ends)
            held.append(found.where(inside))
            counts = [header.record_count for header in headers]
            stamped.append(np.repeat([header.is_log_append_time for header in headers], counts)[inside])
            batches, size = batches + len(chosen), size + sum(header.size for header in headers)
            count += len(held[-1].offsets)
            if count >= FLUSH:
                yield _portion(held, stamped, batches, size)
                held, stamped = [], []
                batches = size = count = 0
    if held:
        yield _portion(held, stamped, batches, size)


def _at_once(found: Iterable[Read]) -> Iterator[list[tuple[BatchHeader, bytes | memoryview]]]:
    """Batches with their records decompressed: together some `AT_ONCE` bytes, or one batch more."""
    held: list[tuple[BatchHeader, bytes | memoryview]] = []
    size = 0
    for each in found:
        held.append((each.header, body_of(each.header, each.batch)))
        size += len(held[-1][1])
        if size >= AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


def _portion(held: Sequence[Columns], stamped: Sequence[Any], batches: int, size: int) -> Portion:
    return Portion(Columns(*map(np.concatenate, zip(*held, strict=True))), np.concatenate(stamped), batches, size)


# ── a row a record ────────────────────────────────────────────────────────────────────────────────────────────────


class _Records:
    """Rows of records; `wanted`: only those of these buckets, and those that the copy has not reached."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted

    def __call__(self, span: LogSpan, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
        for portion in found:
            yield from self._of(span, portion)

    def _of(self, span: LogSpan, portion: Portion) -> Iterator[Mapping[str, Any]]:
        records = portion.records
        places = span.places(records.offsets)
        pending = places >= span.end if span.end is not None else np.zeros(len(places), np.bool_)
        chosen = np.ones(len(places), np.bool_)
        if self._wanted is not None:
            chosen = pending | np.isin(places // BUCKET, self._wanted[span.at])
        found = {
            "pending": pending,
            "place": places,
            "offset": records.offsets,
            "content": records.content,
            "size": records.sizes,
            "time": records.times,
            "stamped": portion.stamped,
        }
        found = {name: column[chosen] for name, column in found.items()}
        one = np.ones(int(chosen.sum()), np.int64)
        found |= {"length": one, "records": one}
        for first in range(0, len(one), ROWS):
            yield {name: column[first : first + ROWS] for name, column in found.items()}


def frame(
    spark: SparkSession,
    name: str,
    endpoint: Endpoint,
    tasks: Sequence[tuple[LogSpan, ...]],
    wanted: _Wanted = None,
) -> DataFrame:
    """Committed records of `tasks` as a frame of `RECORD_SCHEMA`; `name` is the format's, one for each frame.

    `wanted`: only records in these buckets (`place // BUCKET`), and those that are pending.
    """
    return loaded(spark, name, RecordReader(endpoint, tasks, RECORD_SCHEMA, _Records(wanted)), RECORD_SCHEMA)


# ── a row a bucket ────────────────────────────────────────────────────────────────────────────────────────────────


def digest_frame(spark: SparkSession, name: str, endpoint: Endpoint, tasks: Sequence[tuple[LogSpan, ...]]) -> DataFrame:
    """Digests of the records of `tasks` that the copy has reached, of `DIGEST_SCHEMA`; `name` as for `frame`."""
    return loaded(spark, name, digest_reader(endpoint, tasks), DIGEST_SCHEMA)


def digest_reader(endpoint: Endpoint, tasks: Sequence[tuple[LogSpan, ...]]) -> RecordReader:
    """What reads the rows of `digest_frame`."""
    return RecordReader(endpoint, tasks, DIGEST_SCHEMA, _digests)


def _digests(span: LogSpan, found: Iterator[Portion]) -> Iterator[Mapping[str, Any]]:
    for portion in found:
        yield from digest_rows(span, portion)


def digest_rows(span: LogSpan, portion: Portion) -> Iterator[Mapping[str, Any]]:
    """A row for each bucket that has records of `portion`; its batches are counted in the first."""
    records, stamped = portion.records, portion.stamped
    places = span.places(records.offsets)
    if span.end is not None and not (reached := places < span.end).all():
        records, stamped, places = records.where(reached), stamped[reached], places[reached]
    if not len(places):
        return
    buckets = places // BUCKET
    firsts = np.flatnonzero(np.concatenate(([True], buckets[1:] != buckets[:-1])))
    here, then = mixed(places, records.content), mixed(places, records.times)
    counts = np.diff(np.append(firsts, len(places)))
    nothing = np.zeros(len(firsts) - 1, np.int64)
    yield {
        "bucket": buckets[firsts],
        "records": counts,
        "batches": np.append(portion.batches, nothing),
        "size": np.append(portion.size, nothing),
        "stamped": np.add.reduceat(stamped.astype(np.int64), firsts),
        "content": np.bitwise_xor.reduceat(here, firsts).view(np.int64),
        "content_sum": np.add.reduceat(here & _LOW, firsts).view(np.int64),
        "time": np.bitwise_xor.reduceat(then, firsts).view(np.int64),
        "time_sum": np.add.reduceat(then & _LOW, firsts).view(np.int64),
    }


def mixed(places: Numbers, values: Numbers) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """What is where, in 64 bits each (the last steps of SplitMix64, Steele et al. 2014)."""
    step, second, third = _STEPS
    mixed = places.view(np.uint64) * step
    mixed = _stirred(mixed, second, third) ^ values.view(np.uint64)
    return _stirred(mixed, second, third)


def _stirred(
    mixed: np.ndarray[Any, np.dtype[np.uint64]], second: np.uint64, third: np.uint64
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    mixed = (mixed ^ mixed >> np.uint64(30)) * second
    mixed = (mixed ^ mixed >> np.uint64(27)) * third
    return mixed ^ mixed >> np.uint64(31)
