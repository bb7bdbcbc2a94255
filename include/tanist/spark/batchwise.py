"""Level `batches`: every raw batch of both sides, compared where it lies; then what exactly differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel

from tanist.spark import batches, comparing, inside
from tanist.spark.comparing import REACHED
from tanist.spark.log_source import tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tanist.domain.validation.job import ValidationJob
    from tanist.spark.comparing import ComparisonRows
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
        report(f"what differs in {len(differing)} partitions")
        ours, theirs = (comparing.of_partitions(each.where("seen"), differing) for each in (source, copy))
        found = comparing.differences(ours, theirs, comparing.BATCH_IDENTITY).orderBy("place").collect()
    finally:
        source.unpersist()
        copy.unpersist()
    return inside.detailed(job, comparing.comparison_rows(sides, unequal, found))
