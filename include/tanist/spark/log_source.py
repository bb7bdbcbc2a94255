"""Logs as data sources of Spark: what the readers of batches and of records have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tanist.spark.progress import counter
from tanist.spark.spans import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.spark.spans import LogSpan

_TASKS_PER_CORE: Final = 2
_MOST_OFFSETS: Final = 5_000_000
"""Of one task; records of 100 B take some two seconds of processor time."""
_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


class ReadTask(InputPartition):
    """What one task reads, one span after another."""

    def __init__(self, spans: tuple[LogSpan, ...]) -> None:
        self.spans = spans


class SpanReader(DataSourceReader):
    """Travels to the workers with the endpoint in it: secrets are in no option and in no plan."""

    def __init__(self, endpoint: Endpoint, tasks: Sequence[tuple[LogSpan, ...]]) -> None:
        self._endpoint, self._tasks = endpoint, tasks
        self.counter: Accumulator[int] | None = None

    def count(self, size: int) -> None:
        """`size` more bytes have been read of a log."""
        if self.counter is not None:
            self.counter += size

    def partitions(self) -> Sequence[InputPartition]:
        return [ReadTask(spans) for spans in self._tasks]


def tasks(spark: SparkSession, spans: Iterable[LogSpan]) -> tuple[tuple[LogSpan, ...], ...]:
    """`spans`, cut for all cores that Spark has; large ones into more tasks, for what was read is known as they end."""
    spans = tuple(spans)
    offsets = sum(span.until - span.start for span in spans)
    return cut(spans, max(_TASKS_PER_CORE * spark.sparkContext.defaultParallelism, offsets // _MOST_OFFSETS))


def arrow_schema(schema: str) -> pa.Schema:
    """A list of names and types as Spark writes it, for Arrow."""
    named = (each.split() for each in schema.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, kind in named])


def loaded(spark: SparkSession, name: str, reads: SpanReader, rows: str) -> DataFrame:
    """What `reads` yields, of the schema `rows`; `name` is the format's, one for each frame."""

    class SpanFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return rows

        def reader(self, schema: object) -> SpanReader:  # noqa: ARG002  # called by keyword
            return reads

    reads.counter = counter(spark.sparkContext)
    spark.dataSource.register(SpanFormat)
    return spark.read.format(name).load()
