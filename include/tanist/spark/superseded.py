"""Compacted partitions record by record: what one log alone still has must be superseded, or gone with its key.

Each log has a cleaner of its own (`org.apache.kafka.storage.internals.log.LogCleaner`), and offsets of removed records
hold copies of the next one in the mirror partition. So a record that only one log has is no difference if either log
has a later one of its key; of the source's, only those that must have been copied excuse what the copy lacks. Nor is a
tombstone whose key the other log does not have (`delete.retention.ms`).

Two records at one place that are not the same are no difference only if both are superseded so, and the copy's is what
a mirror writes where the source has no record (`kafka.protocol.refilling`): a replica of the source may lead that still
has one there. That is the record of a later offset, a tombstone of that record's key, or one of a key that the source
had deleted. What this mirror has not written, because it was reversed, may be older than such a record of its source.

Both logs are read to their ends of now, not only to the bounds of the comparison: a cleaner may have removed a record
because of one that came later. What differs then is looked for once more, for cleaners work meanwhile, too.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812
from xxhash import xxh3_64_intdigest

from tanist.domain.errors import TanistError
from tanist.domain.validation.result import DifferenceKind
from tanist.kafka.protocol.record_set import records_in
from tanist.kafka.protocol.records_left import NO_HEADERS
from tanist.kafka.wire.router import Router
from tanist.spark import comparing
from tanist.spark.columns import body_of
from tanist.spark.ends import ends_of
from tanist.spark.log_source import loaded, tasks
from tanist.spark.reading import read
from tanist.spark.record_source import RecordReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import ProducerId, TopicPartition
    from tanist.domain.validation.job import ValidationJob
    from tanist.spark.reading import Read
    from tanist.spark.spans import LogSpan, Spans

_KEPT: Final = StorageLevel.MEMORY_AND_DISK
SCHEMA: Final = (
    "topic string, partition int, place bigint, offset bigint, compared boolean, key bigint, tombstone boolean, "
    "content bigint, time bigint, stamped boolean, mirrored boolean, trouble string"
)
"""`compared`: it lies within the bounds of the comparison, and the mirror wrote it. `key`, `content` (value and
headers): xxh3_64. `mirrored`: this mirror wrote it, not another producer."""
_KEY: Final = (*comparing.PARTITION, "key")
_SIGNED: Final = 1 << 63


class _Compared(NamedTuple):
    """Which records of a log are compared: below the place `end`, of batches that `span` counts.

    `data_id`: the producer id of the mirror.
    """

    end: int
    span: LogSpan
    data_id: ProducerId


class _KeyedReader(RecordReader):
    """Reads batches whole: keys are looked at one by one."""

    def records(self, router: Router, span: LogSpan) -> Iterator[list[Read]]:
        for answer in read(router, span):
            seen = [each for each in answer if each.seen and each.header.record_count]
            self.count(sum(each.header.size for each in seen))
            yield seen


class _KeyedRows:
    def __init__(self, compared: Mapping[TopicPartition, _Compared]) -> None:
        self._compared = compared

    def __call__(self, span: LogSpan, answers: Iterator[list[Read]]) -> Iterator[Mapping[str, Any]]:
        compared = self._compared[span.at]
        for answer in answers:
            rows = [row for each in answer for row in _rows(span, each, compared)]
            if rows:
                names = ("place", "offset", "compared", "key", "tombstone", "content", "time", "stamped", "mirrored")
                yield dict(zip(names, zip(*rows, strict=True), strict=True))


def _rows(span: LogSpan, found: Read, compared: _Compared) -> Iterator[tuple[Any, ...]]:
    """Records without a key are left out: a compacted mirror topic cannot have them."""
    header = found.header
    own = compared.span.counts(header.base_offset, header.producer_id)
    mirrored = header.producer_id == compared.data_id
    first = span.start if span.first else 0
    for record in records_in(header, bytes(body_of(header, found.batch))):
        if record.key is None or not first <= record.offset < span.ends:
            continue
        place = span.place(record.offset)
        content = content_of(record.value, record.tail)
        tombstone, stamped = record.value is None, header.is_log_append_time
        within = own and place < compared.end
        yield place, record.offset, within, _hashed(record.key), tombstone, content, record.timestamp, stamped, mirrored


def content_of(value: bytes | None, headers: bytes) -> int:
    """The length of the value belongs to it: a value can end like the headers that follow another one."""
    return _hashed(headers if value is None else len(value).to_bytes(8) + value + headers)


def _hashed(data: bytes) -> int:
    return (xxh3_64_intdigest(data) ^ _SIGNED) - _SIGNED


NO_CONTENT: Final = content_of(None, NO_HEADERS)
"""Of the tombstones that a mirror writes."""


class Differing(NamedTuple):
    """`rows` as `comparing.comparison_rows` takes them. `unread`: partitions that could not be read, and why."""

    rows: Sequence[Row]
    unread: Mapping[TopicPartition, str]


def look(spark: SparkSession, job: ValidationJob, spans: Spans, report: Callable[[str], None]) -> Differing:
    """What differs in compacted partitions; `spans`: of the whole comparison."""
    report(f"keys of {len(spans.source)} compacted partitions")
    first, unread = _flagged(spark, job, spans)
    try:
        if unread or first.isEmpty():
            return Differing(comparing.first(first).collect(), unread)
        again, unread = _flagged(spark, job, spans)
        try:
            certain = again.join(first.select(*comparing.PLACE, "kind"), [*comparing.PLACE, "kind"], "left_semi")
            return Differing(comparing.first(certain).orderBy("place").collect(), unread)
        finally:
            again.unpersist()
    finally:
        first.unpersist()


def _flagged(spark: SparkSession, job: ValidationJob, spans: Spans) -> tuple[DataFrame, Mapping[TopicPartition, str]]:
    """What differs at one look, kept; and the partitions that it could not read."""
    logs = [
        _log(spark, "source", job.source, spans.source, job.data_id),
        _log(spark, "copy", job.destination, spans.destination, job.data_id),
    ]
    sides = [rows.persist(_KEPT) for rows, _ in logs]
    try:
        troubled = sides[0].unionByName(sides[1]).where("trouble is not null").collect()
        unread = {comparing.partition_of(row): row.trouble for row in troubled} | logs[0][1] | logs[1][1]
        read_whole = [span.at for span in spans.source if span.at not in unread]
        found = differences(*(comparing.of_partitions(each, read_whole) for each in sides)).persist(_KEPT)
        found.count()
        return found, unread
    finally:
        for each in sides:
            each.unpersist()


def _log(
    spark: SparkSession, name: str, endpoint: Endpoint, spans: Sequence[LogSpan], data_id: ProducerId
) -> tuple[DataFrame, dict[TopicPartition, str]]:
    """The rows of one log, of `SCHEMA`, up to the ends that it has now; and where these could not be had."""
    with closing(Router(endpoint, "tanist-spark")) as router:
        ends = ends_of(router, [span.partition for span in spans])
    wider, compared, silent = [], {}, {}
    for span in spans:
        at, end = span.at, ends[span.partition]
        compared[at] = _Compared(span.until if span.end is None else span.end, span, data_id)
        if isinstance(end, TanistError):
            silent[at] = str(end)
        else:
            wider.append(replace(span, until=max(span.until, end.last_stable), only=None, skipped=()))
    reads = _KeyedReader(endpoint, tasks(spark, wider), SCHEMA, _KeyedRows(compared))
    return loaded(spark, f"{name}_keys", reads, SCHEMA), silent


def differences(source: DataFrame, copy: DataFrame) -> DataFrame:
    """What differs in frames of `SCHEMA`, as the module says: missing, extra, changed."""
    both = source.withColumn("is_copy", F.lit(False)).unionByName(copy.withColumn("is_copy", F.lit(True)))  # noqa: FBT003
    keys = both.groupBy(*_KEY).agg(
        F.max("place").alias("latest"),
        F.max(F.when(F.col("is_copy") | F.col("compared"), F.col("place"))).alias("latest_copied"),
        F.min(F.when(~F.col("is_copy"), F.col("place"))).alias("first_in_source"),
        F.min(F.when(F.col("is_copy"), F.col("place"))).alias("first_in_copy"),
    )
    ours = _explained(source, keys, "latest_copied", "first_in_copy")
    theirs = _explained(copy, keys, "latest", "first_in_source")
    pairs = ours.alias("ours").join(theirs.alias("theirs"), comparing.equal(comparing.PLACE), "full_outer")
    same = comparing.equal(["key", "tombstone", "content"]) & comparing.same_time()
    fine = F.coalesce("ours.explained", F.lit(True)) & F.coalesce("theirs.explained", F.lit(True))  # noqa: FBT003
    differ = pairs.where(~same)
    unlike = differ.where(fine & F.col("ours.place").isNotNull() & F.col("theirs.place").isNotNull())
    changed = _without(unlike, _of_holes(unlike, both))
    return comparing.differing(differ.where(~fine), _kind()).unionByName(comparing.differing(changed, _kind()))


def _explained(log: DataFrame, keys: DataFrame, latest: str, first_elsewhere: str) -> DataFrame:
    """The compared records of one log, and whether the other log may lack each.

    `lost`: a tombstone at a hole, of a key that the other log did not have up to there.
    """
    superseded, first = F.col("place") < F.col(latest), F.col(first_elsewhere)
    forgotten = F.col("tombstone") & first.isNull()
    bare = F.col("tombstone") & (F.col("content") == NO_CONTENT)
    lost = bare & F.coalesce(first > F.col("place"), F.lit(True))  # noqa: FBT003
    found = log.where("compared").join(keys, list(_KEY)).withColumn("explained", superseded | forgotten)
    found = found.withColumn("bare", bare).withColumn("lost", lost)
    return found.withColumn("length", F.lit(1)).withColumn("records", F.lit(1))


def _of_holes(unlike: DataFrame, both: DataFrame) -> DataFrame:
    """The places of `unlike` with what a mirror writes at an offset without a record.

    A later record must be the same one, or have the key and the time of a tombstone. The other log may have it at the
    same place: where a hole ends a shift of offsets, two offsets of the source have one place.
    """
    by_us = unlike.select("theirs.*").withColumn("is_copy", F.lit(True))  # noqa: FBT003
    before_us = unlike.where("not theirs.mirrored").select("ours.*").withColumn("is_copy", F.lit(False))  # noqa: FBT003
    written = by_us.unionByName(before_us)
    of_key = (*_KEY, "time")
    known = both.where("not stamped").join(written.select(*of_key).distinct(), list(of_key), "left_semi")
    later = known.groupBy(*of_key, "tombstone", "content", "is_copy").agg(F.max("place").alias("latest"))
    alike = F.col("ours.bare") | comparing.equal(["tombstone", "content"])
    from_place = F.expr("theirs.latest > ours.place or theirs.latest = ours.place and theirs.is_copy <> ours.is_copy")
    copied = written.alias("ours").join(
        later.alias("theirs"), comparing.equal(of_key) & alike & from_place, "left_semi"
    )
    return written.where("lost").select(*comparing.PLACE).unionByName(copied.select(*comparing.PLACE)).distinct()


def _without(pairs: DataFrame, places: DataFrame) -> DataFrame:
    """`pairs` that are not at one of `places`."""
    at = (F.col(f"theirs.{name}") == F.col(f"places.{name}") for name in comparing.PLACE)
    return pairs.join(places.alias("places"), reduce(and_, at), "left_anti")


def _kind() -> Column:
    return (
        F.when(F.col("theirs.place").isNull(), DifferenceKind.MISSING.value)
        .when(F.col("ours.place").isNull(), DifferenceKind.EXTRA.value)
        .otherwise(DifferenceKind.CHANGED.value)
    )
