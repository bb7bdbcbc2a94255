"""Raw record batches as a data source: one row a batch, with a digest of its records; the payload stays in Python.

Rows of both sides are in the copy's offsets: `place` is where a batch lies in the copy, or must lie there.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from xxhash import xxh3_128_digest

from tanist.domain.errors import TanistError
from tanist.kafka.protocol.batch import HEADER_SIZE, is_sound
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.spark.log_source import ReadTask, SpanReader, arrow_schema, loaded
from tanist.spark.reading import PATIENCE_SECONDS, changed_topics, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import InputPartition

    from tanist.domain.endpoint import Endpoint
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.spark.reading import Read
    from tanist.spark.spans import LogSpan

ROWS_AT_ONCE: Final = 10_000
SCHEMA: Final = (
    "topic string, partition int, pending boolean, place bigint, offset bigint, length bigint, records bigint, "
    "base_timestamp bigint, max_timestamp bigint, codec int, stamped boolean, producer_id bigint, seen boolean, "
    "size bigint, sound boolean, digest binary, trouble string"
)
"""`pending`: the copy ends before it; `length` offsets from `offset` on; `stamped`: by the broker (LogAppendTime);
`seen` by a reader of committed records; `sound`: the stored CRC32C is the recomputed one; `trouble`: this partition
could not be read to its end, and why."""
_ARROW: Final = arrow_schema(SCHEMA)
_SIZE: Final = [each.split()[0] for each in SCHEMA.split(",")].index("size")


class BatchReader(SpanReader):
    """Reads rows of `SCHEMA`."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ReadTask):  # without any task Spark asks for None
            with closing(Router(self._endpoint, "tanist-validation")) as router:
                yield from arrow(self._rows(router, partition.spans))

    def _rows(self, router: Router, spans: tuple[LogSpan, ...]) -> Iterator[tuple[Any, ...]]:
        for span in spans:
            for row in rows(router, span):
                self.count(row[_SIZE] or 0)
                yield row
        for span, trouble in changed_topics(router, spans, Deadline(time.monotonic() + PATIENCE_SECONDS)):
            yield _failed(span, trouble)


def frame(spark: SparkSession, name: str, endpoint: Endpoint, tasks: Sequence[tuple[LogSpan, ...]]) -> DataFrame:
    """The batches of `tasks` as a frame of `SCHEMA`; `name` is the format's, one for each side."""
    return loaded(spark, name, BatchReader(endpoint, tasks), SCHEMA)


def arrow(found: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
    """Rows in portions that Spark takes in one piece."""
    portion: list[tuple[Any, ...]] = []
    for row in found:
        portion.append(row)
        if len(portion) == ROWS_AT_ONCE:
            yield _portion(portion)
            portion.clear()
    if portion:
        yield _portion(portion)


def _portion(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def rows(router: Router, span: LogSpan) -> Iterator[tuple[Any, ...]]:
    """One row a batch, two where the copy's log start cuts it. What cannot be read is a row too: it fails alone."""
    try:
        for answer in read(router, span):
            for each in answer:
                if each.header.record_count:
                    yield from _parts(span, each)
    except TanistError as trouble:
        yield _failed(span, trouble)


def _failed(span: LogSpan, trouble: TanistError) -> tuple[Any, ...]:
    at = span.at
    return (at.topic, at.partition, *(None,) * (len(_ARROW) - 3), str(trouble))


def _parts(span: LogSpan, each: Read) -> Iterator[tuple[Any, ...]]:
    """What readers get of a batch: a log start may lie inside of it, and the brokers send it whole all the same."""
    header = each.header
    begins = max(header.base_offset, span.start)
    if begins < span.edge <= header.last_offset:
        yield _row(span, each, begins, span.edge)
        begins = span.edge
    yield _row(span, each, begins, header.next_offset)


def _row(span: LogSpan, each: Read, begins: int, until: int) -> tuple[Any, ...]:
    header, batch, seen = each
    place = span.place(begins)
    return (
        span.at.topic,
        span.at.partition,
        span.end is not None and place >= span.end,
        place,
        begins,
        until - begins,
        _records_from(header, begins) - _records_from(header, until),
        header.base_timestamp,
        header.max_timestamp,
        header.codec,
        header.is_log_append_time,
        header.producer_id,
        seen,
        header.size if until == header.next_offset else 0,
        is_sound(header, batch),
        xxh3_128_digest(batch[HEADER_SIZE:]),
        None,
    )


def _records_from(header: BatchHeader, offset: int) -> int:
    """Records of a batch from `offset` on; of one with holes the most that they can be."""
    return min(header.record_count, header.next_offset - offset)
