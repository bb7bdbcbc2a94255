"""Level `batches`: every raw batch of both sides, compared where it lies; then what exactly differs.

Partitions whose small batches were merged, compacted ones, and those with history, in which the mirror of the other
direction may have merged batches of either side, are compared record by record, once their batches have turned out to
differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel

from tanist.spark import batches, comparing, inside, recordwise
from tanist.spark.comparing import REACHED, ComparisonRows
from tanist.spark.log_source import tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, Row, SparkSession

    from tanist.domain.names import TopicPartition
    from tanist.domain.validation.job import ValidationJob
    from tanist.spark.spans import Spans

_KEPT: Final = StorageLevel.MEMORY_AND_DISK


def look(spark: SparkSession, job: ValidationJob, spans: Spans, report: Callable[[str], None]) -> ComparisonRows:
    """Both logs are read once: their rows, some hundred bytes a batch, are kept until the differences are named."""
    report(f"batches: {spans}")
    source, copy = (
        comparing.with_time(batches.frame(spark, name, endpoint, tasks(spark, side))).persist(_KEPT)
        for name, endpoint, side in (
            ("source_batches", job.source, spans.source),
            ("copy_batches", job.destination, spans.destination),
        )
    )
    try:
        unequal = {
            comparing.partition_of(row): row.unequal
            for row in comparing.batches_unequal(source.where(REACHED), copy).collect()
        }
        sides = comparing.log_summaries(source.where(REACHED), copy).collect()
        halved = {comparing.partition_of(row) for row in sides if row.trouble}
        if not (differing := unequal.keys() - halved):
            return comparing.comparison_rows(sides, {}, ())
        merged = {comparing.partition_of(row) for row in comparing.cut_otherwise(source, copy).collect()}
        recut = {each.partition for each in job.partitions if each.compacted or each.copy_start}
        merged = differing & (merged | recut)
        found = _differences(source, copy, differing - merged, report)
    finally:
        source.unpersist()
        copy.unpersist()
    looked = inside.detailed(job, comparing.comparison_rows(sides, unequal, found))
    return _by_records(looked, recordwise.look(spark, job, spans.of(merged), report), merged) if merged else looked


def _differences(
    source: DataFrame, copy: DataFrame, differing: Collection[TopicPartition], report: Callable[[str], None]
) -> list[Row]:
    if not differing:
        return []
    report(f"what differs in {len(differing)} partitions")
    ours, theirs = (comparing.of_partitions(each.where("seen"), differing) for each in (source, copy))
    return comparing.differences(ours, theirs, comparing.BATCH_IDENTITY).orderBy("place").collect()


def _by_records(looked: ComparisonRows, records: ComparisonRows, merged: Collection[TopicPartition]) -> ComparisonRows:
    """`looked`, with what `records` says of the `merged` partitions; what was read of a log is told once."""
    troubled = {comparing.partition_of(row) for row in records.logs if row.trouble}
    kept = [row for row in looked.logs if comparing.partition_of(row) not in troubled]
    return ComparisonRows(
        [*kept, *(row for row in records.logs if comparing.partition_of(row) in troubled)],
        {at: count for at, count in looked.unequal.items() if at not in merged} | dict(records.unequal),
        dict(looked.named) | dict(records.named),
        dict(looked.counts) | dict(records.counts),
    )
