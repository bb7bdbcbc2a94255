"""Level `records`: digests of the records of both sides, then record by record where they differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

from tanist.domain.names import DestinationOffset, TopicPartition
from tanist.domain.validation.bounds import SHIFT
from tanist.spark import comparing, record_source, superseded
from tanist.spark.log_source import tasks
from tanist.spark.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.validation.job import ValidationJob
    from tanist.spark.columns import Numbers
    from tanist.spark.comparing import ComparisonRows
    from tanist.spark.spans import LogSpan

_KEPT: Final = StorageLevel.MEMORY_AND_DISK
_IDENTITY: Final = ("content", "size")


def look(spark: SparkSession, job: ValidationJob, spans: Spans, report: Callable[[str], None]) -> ComparisonRows:
    """The digests are kept, the records are not: those in question are read again."""
    report(f"records: {spans}")
    source, copy = (
        record_source.digest_frame(spark, f"{name}_digests", endpoint, tasks(spark, side)).persist(_KEPT)
        for name, endpoint, side in _logs(job, spans)
    )
    try:
        sides = comparing.log_summaries(_as_side(source), _as_side(copy)).collect()
        unread = {comparing.partition_of(row) for row in sides if row.trouble}
        differ = unequal_buckets(source, copy).collect()
    finally:
        source.unpersist()
        copy.unpersist()
    buckets = [row for row in differ if comparing.partition_of(row) not in unread]
    if not buckets:
        return comparing.comparison_rows(sides, {}, ())
    cleaned = {comparing.partition_of(row) for row in buckets} & {at.partition for at in job.partitions if at.compacted}
    dense = [row for row in buckets if comparing.partition_of(row) not in cleaned]
    unequal = defaultdict[TopicPartition, int](int)
    for row in dense:
        unequal[comparing.partition_of(row)] += row.certain
    found = list[Row]()
    if dense:
        report(f"what differs in {len(dense)} ranges of {record_source.BUCKET:,} offsets")
        wanted = _wanted(dense)
        wanted |= {at: with_following(wanted[at]) for at in wanted.keys() & _repeating(job)}
        found += _differences(spark, job, narrowed(spans, wanted), wanted)
    if cleaned:
        later = superseded.look(spark, job, spans.of(cleaned), report)
        found += later.rows
        sides = [_marked(row, later.unread.get(comparing.partition_of(row))) for row in sides]
    return comparing.comparison_rows(sides, unequal, found)


def _marked(summary: Row, trouble: str | None) -> Row:
    """`summary`, with the `trouble` of a later look."""
    return Row(**summary.asDict() | {"trouble": summary.trouble or trouble})


def _logs(job: ValidationJob, spans: Spans) -> Sequence[tuple[str, Endpoint, tuple[LogSpan, ...]]]:
    return ("source", job.source, spans.source), ("copy", job.destination, spans.destination)


def _as_side(digests: DataFrame) -> DataFrame:
    return digests.select(
        *comparing.PARTITION,
        "records",
        "batches",
        "size",
        F.lit(True).alias("seen"),  # noqa: FBT003
        F.lit(True).alias("sound"),  # noqa: FBT003
        "trouble",
    )


def unequal_buckets(source: DataFrame, copy: DataFrame) -> DataFrame:
    """(topic, partition, bucket, certain): buckets whose records have to be looked at.

    Times count where the producers of the source have set them. Where its brokers have set those of some records
    only, the digests of times do not tell: such a bucket is not `certain` to differ.
    """
    ours, theirs = _summed(source).alias("ours"), _summed(copy).alias("theirs")
    joined = ours.join(theirs, [*comparing.PARTITION, "bucket"], "full_outer")
    stamped = F.coalesce("ours.stamped", F.lit(0))
    alike = comparing.equal(["records", "content", "content_sum"])
    times = comparing.equal(["time", "time_sum"])
    free = stamped == F.coalesce("ours.records", F.lit(0))
    certain = ~alike | ((stamped == 0) & ~times)
    return joined.where(~(alike & (times | free))).select(
        *comparing.PARTITION, "bucket", certain.cast("int").alias("certain")
    )


def _summed(digests: DataFrame) -> DataFrame:
    """One row for each bucket. Two equal ones hold the same records at the same places."""
    return (
        digests.where("trouble is null")
        .groupBy(*comparing.PARTITION, "bucket")
        .agg(
            *(F.sum(name).alias(name) for name in ("records", "stamped", "content_sum", "time_sum")),
            *(F.bit_xor(name).alias(name) for name in ("content", "time")),
        )
    )


def _differences(
    spark: SparkSession, job: ValidationJob, spans: Spans, wanted: Mapping[TopicPartition, Numbers]
) -> list[Row]:
    """What differs in those buckets; of a partition that could not be read again nothing is listed."""
    source, copy = (
        record_source.frame(spark, f"{name}_records", endpoint, tasks(spark, side), wanted).persist(_KEPT)
        for name, endpoint, side in _logs(job, spans)
    )
    try:
        troubled = source.unionByName(copy).where("trouble is not null").select(*comparing.PARTITION).collect()
        read = wanted.keys() - {comparing.partition_of(row) for row in troubled}
        ours, theirs = (comparing.of_partitions(each, read) for each in (source, copy))
        return comparing.differences(ours, theirs, _IDENTITY).orderBy("place").collect()
    finally:
        source.unpersist()
        copy.unpersist()


def _repeating(job: ValidationJob) -> Collection[TopicPartition]:
    return {each.partition for each in job.partitions if each.may_repeat}


def with_following(buckets: Numbers) -> Numbers:
    """`buckets`, and behind each stretch of them as many again, and one.

    Where a stretch holds records that are copied again behind it, the last copies of these begin there, and take no
    more offsets than the earlier ones.
    """
    found = set(map(int, buckets))
    for stretch in np.split(buckets, np.flatnonzero(np.diff(buckets) != 1) + 1):
        found |= set(range(int(stretch[-1]) + 1, int(stretch[-1]) + len(stretch) + 2))
    return np.array(sorted(found), np.int64)


def _wanted(buckets: Collection[Row]) -> dict[TopicPartition, Numbers]:
    found = defaultdict[TopicPartition, list[int]](list)
    for row in buckets:
        found[comparing.partition_of(row)].append(row.bucket)
    return {at: np.array(sorted(numbers), np.int64) for at, numbers in found.items()}


def narrowed(spans: Spans, wanted: Mapping[TopicPartition, Numbers]) -> Spans:
    """`spans`, from the first to the last bucket that is `wanted` of each partition; without any: not at all."""
    source, copy = [], []
    for ours, theirs in zip(spans.source, spans.destination, strict=True):
        if ours.at in wanted:
            inside = wanted[ours.at]
            low, high = int(inside[0]) * record_source.BUCKET, int(inside[-1] + 1) * record_source.BUCKET
            origin = ours.map.origin
            source.append(_within(ours, origin(DestinationOffset(low)), origin(DestinationOffset(high)) + SHIFT))
            copy.append(_within(theirs, low, high))
    return Spans(source=tuple(source), destination=tuple(copy))


def _within(span: LogSpan, low: int, high: int) -> LogSpan:
    start = max(span.start, low)
    return replace(span, start=start, until=max(start, min(span.until, high)))
