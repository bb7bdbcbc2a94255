"""The records of many logs as one slim frame: read in columns, by few tasks; no payload enters the JVM."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tanist.domain.errors import CouldNotTell
from tanist.spark.log_source import loaded, tasks
from tanist.spark.record_source import ROWS, Portion, RecordReader, mixed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import TopicPartition
    from tanist.spark.spans import Span

SCHEMA: Final = "log int, offset bigint, time bigint, stamped boolean, open boolean, identity bigint, trouble string"
"""`log`: the number of a partition of a pair; `time` in ms; `stamped` by the broker; `open`: behind the last stable
offset; `identity`: of time and content; `trouble`: this log could not be read to its end, and why."""


class _SlimReader(RecordReader):
    def __init__(
        self, endpoint: Endpoint, tasks: Sequence[tuple[Span, ...]], logs: Mapping[TopicPartition, int]
    ) -> None:
        super().__init__(endpoint, tasks, SCHEMA, slim_rows)
        self._logs = logs

    def batch(self, at: TopicPartition, found: Mapping[str, Any]) -> pa.RecordBatch:
        count = len(next(iter(found.values())))
        return super().batch(at, {**found, "log": np.full(count, self._logs[at], np.int32)})


def slim_rows(span: Span, portion: Portion) -> Iterator[Mapping[str, Any]]:
    """Its records. The time is part of the identity, so that records alike lie in one bucket."""
    records = portion.records
    found = {
        "offset": records.offsets,
        "time": records.times,
        "stamped": portion.stamped,
        "open": np.full(len(records.offsets), span.undecided),
        "identity": mixed(records.times, records.content).view(np.int64),
    }
    for first in range(0, len(records.offsets), ROWS):
        yield {name: column[first : first + ROWS] for name, column in found.items()}


@contextmanager
def running() -> Iterator[None]:
    """What Spark could not do inside is CouldNotTell, by its innermost cause: the rest is pages of stack traces."""
    try:
        yield
    except (PySparkException, Py4JError) as failed:  # the latter is raised where Arrow is collected
        lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        reported = [*lines[:1], *causes] or [type(failed).__name__]
        raise CouldNotTell(f"Spark: {reported[-1]}") from failed


def frame(spark: SparkSession, name: str, endpoint: Endpoint, spans: Sequence[tuple[int, Span]]) -> DataFrame:
    """The records of `spans`, each with its log's number; `name` is the format's, one for each frame."""
    logs = {span.partition: log for log, span in spans}
    reads = _SlimReader(endpoint, tasks(spark, [span for _, span in spans]), logs)
    return loaded(spark, name, reads, SCHEMA)
