"""Two logs side by side: first place by place, then, where they differ, what exactly is missing, extra or moved.

A frame of either side has the columns topic, partition, place (the offset in the copy), pending (the copy ends before
it), offset (its own), length (how many offsets), records, and whatever says what lies there. Nulls are values: two of
them are equal.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from tanist.domain.names import TopicPartition
from tanist.domain.validation.result import Comparison, Difference, DifferenceKind, LogSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from tanist.domain.validation.bounds import ComparisonBounds

PARTITION: Final = ("topic", "partition")
PLACE: Final = (*PARTITION, "place")
REACHED: Final = "pending is not true"
"""What the copy has, or should have, by now; a row that tells of trouble is not pending."""
MOST_NAMED: Final = 10
"""Differences of one kind in one partition that are named; all are counted."""

_CONTENT: Final = ("length", "records", "base_timestamp", "codec", "size", "digest")
BATCH_IDENTITY: Final = ("records", "base_timestamp", "size", "digest")
"""What makes a batch the same one, wherever it lies."""


class ComparisonRows(NamedTuple):
    """What a look at both logs has brought: rows of `logs`, how many places are unequal, rows of `differences`."""

    logs: Sequence[Row]
    unequal: Mapping[TopicPartition, int]
    named: Mapping[TopicPartition, Sequence[Difference]]
    counts: Mapping[TopicPartition, Mapping[DifferenceKind, int]]

    def compared(self, bounds: ComparisonBounds) -> Comparison:
        """One partition of it. What could not be read to its end has not been compared."""
        at = bounds.request.partition
        rows = {row.is_copy: row for row in self.logs if partition_of(row) == at}
        both = [
            _log_summary(rows.get(is_copy), within.end - within.start)
            for is_copy, within in zip((False, True), bounds.compared, strict=True)
        ]
        if any(side.trouble for side in both):
            return Comparison(source=both[0], destination=both[1])
        return Comparison(
            source=both[0],
            destination=both[1],
            unequal=self.unequal.get(at, 0),
            counts=self.counts.get(at, {}),
            differences=tuple(self.named.get(at, ())),
        )


def comparison_rows(logs: Sequence[Row], unequal: Mapping[TopicPartition, int], rows: Iterable[Row]) -> ComparisonRows:
    """`rows` of `differences`, by partition."""
    named = defaultdict[TopicPartition, list[Difference]](list)
    counts = defaultdict[TopicPartition, dict[DifferenceKind, int]](dict)
    for row in rows:
        named[partition_of(row)].append(_difference(row))
        counts[partition_of(row)][DifferenceKind(row.kind)] = row.total
    return ComparisonRows(logs, unequal, named, counts)


def batches_unequal(source: DataFrame, copy: DataFrame) -> DataFrame:
    """(topic, partition, unequal): places where the batches are not the same, of partitions that have such places.

    Times are not compared where the source's broker has set them: the copy has those of its producers.
    """
    ours, theirs = source.where("seen").alias("ours"), copy.where("seen").alias("theirs")
    joined = ours.join(theirs, list(PLACE), "full_outer")
    return joined.where(~(equal(_CONTENT) & same_time())).groupBy(*PARTITION).agg(F.count("*").alias("unequal"))


def with_time(batches: DataFrame) -> DataFrame:
    """`batches`, one in each row, with the column `time`: equal if the times of all records are.

    A broker that stamps a batch gives all of its records one time, and leaves what is stored of each as it was.
    """
    several = F.coalesce("stamped", F.lit(False)) & (F.col("records") > 1)  # noqa: FBT003
    times = F.struct("max_timestamp", several.alias("several"))
    return batches.withColumn("time", times).withColumn("batches", F.lit(1))


def same_time() -> Column:
    """Whether the times of `ours` and `theirs` are equal, where producers have set them."""
    return F.coalesce("ours.stamped", F.lit(False)) | _pair("time")  # noqa: FBT003


def _pair(name: str) -> Column:
    return F.col(f"ours.{name}").eqNullSafe(F.col(f"theirs.{name}"))


def cut_otherwise(source: DataFrame, copy: DataFrame) -> DataFrame:
    """(topic, partition): where a batch of the copy is longer than the source's that begins at its place.

    The fetcher merges small batches, with the same records; then batches cannot be compared, records can.
    """
    ours, theirs = source.where("seen").alias("ours"), copy.where("seen").alias("theirs")
    longer = ours.join(theirs, list(PLACE)).where("theirs.length > ours.length")
    return longer.select(*PARTITION).distinct()


def log_summaries(source: DataFrame, copy: DataFrame) -> DataFrame:
    """What was read of each partition: one row for each side of it."""
    both = source.withColumn("is_copy", F.lit(False)).unionByName(copy.withColumn("is_copy", F.lit(True)))  # noqa: FBT003
    seen = F.when(F.col("seen"), F.col("records"))
    return both.groupBy(*PARTITION, "is_copy").agg(
        F.coalesce(F.sum(F.when(F.col("seen"), F.col("batches"))), F.lit(0)).alias("batches"),
        F.coalesce(F.sum(seen), F.lit(0)).alias("records"),
        F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
        F.count_if(~F.col("sound")).alias("damaged"),
        F.first("trouble", ignorenulls=True).alias("trouble"),
    )


def _log_summary(row: Row | None, offsets: int) -> LogSummary:
    if row is None:
        return LogSummary(unseen=offsets)
    return LogSummary(
        batches=row.batches,
        records=row.records,
        bytes=row.bytes,
        unseen=max(0, offsets - row.records),
        damaged=row.damaged,
        trouble=row.trouble or "",
    )


# ── what exactly ──────────────────────────────────────────────────────────────────────────────────────────────────


def differences(source: DataFrame, copy: DataFrame, identity: Sequence[str], most: int = MOST_NAMED) -> DataFrame:
    """The first `most` differences of each kind and partition, with `total`, how many there are of that kind.

    What lies at the same place on both sides is taken out first. Of what is left, the n-th occurrence of something in
    the source belongs to the n-th in the copy: it has moved. What has no partner is missing or extra; both at one
    place: changed there. An extra one whose like the source has is repeated. What the copy has not
    reached yet is not missing.

    Both frames have `time` and `stamped` besides `identity`. Times count, but at a place where the source's broker has
    set them; partners are found without them in a partition that has such a place.
    """
    identity = (*identity, "by_time")
    columns = [*PLACE, "offset", "length", "records", "pending", "stamped", "time"]
    columns += [name for name in identity if name not in {"records", "by_time"}]
    free = F.broadcast(source.where("stamped").select(*PARTITION).distinct().withColumn("free", F.lit(True)))  # noqa: FBT003
    ours, theirs = (
        side.select(*columns).join(free, list(PARTITION), "left").withColumn("by_time", F.expr("if(free, null, time)"))
        for side in (source, copy)
    )
    same = equal([*PLACE, *(name for name in identity if name != "by_time")]) & same_time()
    ours_left = ours.alias("ours").join(theirs.alias("theirs"), same, "left_anti")
    theirs_left = theirs.alias("theirs").join(ours.alias("ours"), same, "left_anti")
    paired = (
        _numbered(ours_left, identity)
        .alias("ours")
        .join(_numbered(theirs_left, identity).alias("theirs"), equal([*PARTITION, *identity, "nth"]), "full_outer")
    )
    both = paired.where("ours.place is not null and theirs.place is not null")
    here = F.when(_pair("place"), DifferenceKind.CHANGED.value).otherwise(DifferenceKind.MOVED.value)
    moved = differing(both, here)
    missing = paired.where("theirs.place is null and not ours.pending").select("ours.*")
    surplus = paired.where("ours.place is null").select("theirs.*")
    known = ours.select(*PARTITION, *identity).distinct().withColumn("known", F.lit(True))  # noqa: FBT003
    surplus = surplus.alias("ours").join(known.alias("theirs"), equal([*PARTITION, *identity]), "left")
    surplus = surplus.select("ours.*", "theirs.known")
    lone = missing.alias("ours").join(surplus.alias("theirs"), equal(PLACE), "full_outer")
    kind = (
        F.when(F.col("ours.place").isNotNull() & F.col("theirs.place").isNotNull(), DifferenceKind.CHANGED.value)
        .when(F.col("ours.place").isNotNull(), DifferenceKind.MISSING.value)
        .when(F.col("theirs.known"), DifferenceKind.REPEATED.value)
        .otherwise(DifferenceKind.EXTRA.value)
    )
    return first(moved.unionByName(differing(lone, kind)), most)


def equal(names: Iterable[str]) -> Column:
    """Whether those columns of `ours` and `theirs` are equal."""
    return reduce(and_, (_pair(name) for name in names))


def _numbered(frame: DataFrame, identity: Sequence[str]) -> DataFrame:
    alike = Window.partitionBy(*PARTITION, *identity).orderBy("place")
    return frame.withColumn("nth", F.row_number().over(alike))


def differing(pairs: DataFrame, kind: Column) -> DataFrame:
    """A row for each of `pairs`, joined as `ours` and `theirs`, with the kind of its difference."""

    def either(name: str) -> Column:
        return F.coalesce(F.col(f"ours.{name}"), F.col(f"theirs.{name}"))

    return pairs.select(
        *(either(name).alias(name) for name in PLACE),
        kind.alias("kind"),
        F.col("ours.offset").alias("source"),
        F.col("theirs.offset").alias("destination"),
        either("length").alias("offsets"),
        F.coalesce("ours.records", F.lit(0)).alias("source_records"),
        F.coalesce("theirs.records", F.lit(0)).alias("destination_records"),
    )


def first(found: DataFrame, most: int = MOST_NAMED) -> DataFrame:
    """The first `most` of each kind and partition, with `total`, how many there are of that kind."""
    of_kind = Window.partitionBy(*PARTITION, "kind")
    ranked = found.withColumn("rank", F.row_number().over(of_kind.orderBy("place")))
    return ranked.withColumn("total", F.count("*").over(of_kind)).where(F.col("rank") <= most)


def _difference(row: Row) -> Difference:
    return Difference(
        kind=DifferenceKind(row.kind),
        source=row.source,
        destination=row.destination,
        offsets=row.offsets,
        records=(row.source_records, row.destination_records),
    )


def of_partitions(frame: DataFrame, chosen: Iterable[TopicPartition]) -> DataFrame:
    """The rows of those partitions."""
    each = [(F.col("topic") == at.topic) & (F.col("partition") == at.partition) for at in chosen]
    return frame.where(reduce(or_, each, F.lit(False)))  # noqa: FBT003


def partition_of(row: Row) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)
