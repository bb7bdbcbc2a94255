"""Level `records`: digests of what the official connector reads, then record by record where they differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from tanist.domain.names import DestinationOffset, TopicPartition
from tanist.domain.validation.bounds import SHIFT
from tanist.spark import comparing, records
from tanist.spark.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import DataFrame, Row, SparkSession

    from tanist.domain.validation.job import ValidationJob
    from tanist.spark.comparing import ComparisonRows
    from tanist.spark.spans import Span

_KEPT: Final = StorageLevel.MEMORY_AND_DISK
_IDENTITY: Final = ("content", "size", "time")


def look(spark: SparkSession, job: ValidationJob, spans: Spans, report: Callable[[str], None]) -> ComparisonRows:
    """The digests are kept, the records are not: those in question are read again.

    Raises:
        CouldNotTell: the connector could not read.
    """
    report(f"records: {spans}")
    with records.reading():
        return _look(spark, job, spans, report)


def _look(spark: SparkSession, job: ValidationJob, spans: Spans, report: Callable[[str], None]) -> ComparisonRows:
    source, copy = (
        records.digests(records.frame(spark, endpoint, side).where(comparing.REACHED)).persist(_KEPT)
        for endpoint, side in ((job.source, spans.source), (job.destination, spans.destination))
    )
    try:
        buckets = records.unequal_buckets(source, copy).collect()
        sides = comparing.log_summaries(_as_side(source), _as_side(copy)).collect()
        stamped = [comparing.partition_of(row) for row in _stamped(source.unionByName(copy)).collect()]
    finally:
        source.unpersist()
        copy.unpersist()
    if not buckets:
        return comparing.comparison_rows(sides, {}, ())
    report(f"what differs in {len(buckets)} ranges of {records.BUCKET:,} offsets")
    found = _differences(spark, job, narrowed(spans, buckets), spark.createDataFrame(buckets), stamped)
    unequal = defaultdict[TopicPartition, int](int)
    for row in buckets:
        unequal[comparing.partition_of(row)] += 1
    return comparing.comparison_rows(sides, unequal, found)


def _as_side(digests: DataFrame) -> DataFrame:
    return digests.select(
        *comparing.PARTITION,
        "records",
        "size",
        F.lit(True).alias("seen"),  # noqa: FBT003
        F.lit(True).alias("sound"),  # noqa: FBT003
        F.lit(None).cast("string").alias("trouble"),
    )


def _stamped(digests: DataFrame) -> DataFrame:
    return digests.where("stamped > 0").select(*comparing.PARTITION).distinct()


def _differences(
    spark: SparkSession, job: ValidationJob, spans: Spans, buckets: DataFrame, stamped: Collection[TopicPartition]
) -> list[Row]:
    """Times count only where the producers have set them."""
    free = [(F.col("topic") == at.topic) & (F.col("partition") == at.partition) for at in stamped]
    source, copy = (
        records.in_buckets(records.frame(spark, endpoint, side), buckets)
        for endpoint, side in ((job.source, spans.source), (job.destination, spans.destination))
    )
    for mine in free:
        source, copy = (each.withColumn("time", F.when(~mine, F.col("time"))) for each in (source, copy))
    return comparing.differences(source, copy, _IDENTITY).orderBy("place").collect()


def narrowed(spans: Spans, buckets: Collection[Row]) -> Spans:
    """`spans`, from the first to the last of the `buckets` of each partition; without any: not at all."""
    edges: Mapping[TopicPartition, list[int]] = defaultdict(list)
    for row in buckets:
        edges[comparing.partition_of(row)].append(row.bucket)
    source, copy = [], []
    for ours, theirs in zip(spans.source, spans.destination, strict=True):
        if inside := edges.get(ours.partition):
            low, high = min(inside) * records.BUCKET, (max(inside) + 1) * records.BUCKET
            origin = ours.map.origin
            source.append(_within(ours, origin(DestinationOffset(low)), origin(DestinationOffset(high)) + SHIFT))
            copy.append(_within(theirs, low, high))
    return Spans(source=tuple(source), destination=tuple(copy))


def _within(span: Span, low: int, high: int) -> Span:
    start = max(span.start, low)
    return replace(span, start=start, until=max(start, min(span.until, high)))
