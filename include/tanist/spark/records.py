"""Records as the official Kafka connector reads them: it shares no code with our copier, and decompresses.

First one digest for each `BUCKET` offsets of the copy, then, where digests differ, record by record.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from tanist.domain.endpoint import SaslMechanism
from tanist.domain.errors import CouldNotTell
from tanist.spark.comparing import PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tanist.domain.endpoint import Endpoint, Sasl, Tls
    from tanist.spark.spans import Span

BUCKET: Final = 10_000
"""Offsets under one digest."""
_LOW: Final = 0xFFFF_FFFF


def frame(spark: SparkSession, endpoint: Endpoint, spans: Sequence[Span]) -> DataFrame:
    """Committed records of `spans`, one for each partition: where they lie, where in the copy, and what they are."""
    starts, ends = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
    for span in spans:
        starts[span.partition.topic][str(span.partition.partition)] = span.start
        ends[span.partition.topic][str(span.partition.partition)] = span.until
    assigned = {topic: [int(number) for number in partitions] for topic, partitions in starts.items()}
    read = spark.read.format("kafka").options(**client_settings(endpoint))
    read = read.option("assign", json.dumps(assigned)).option("includeHeaders", "true")
    read = read.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
    read = read.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "true")
    read = read.option("kafka.fetch.max.wait.ms", "10")  # at a log's end the next reader would wait 500 ms
    read = read.option("minPartitions", str(2 * spark.sparkContext.defaultParallelism))
    return read.load().select(
        *PARTITION,
        _place(spans).alias("place"),
        _pending(spans).alias("pending"),
        "offset",
        F.lit(1).cast("long").alias("length"),
        F.lit(1).cast("long").alias("records"),
        _identity().alias("content"),
        F.unix_millis("timestamp").alias("time"),
        (F.col("timestampType") != 0).alias("stamped"),
        (F.length(F.coalesce("key", F.lit(b""))) + F.length(F.coalesce("value", F.lit(b"")))).alias("size"),
    )


@contextmanager
def reading() -> Iterator[None]:
    """What Spark could not do inside is CouldNotTell, by its innermost cause: the rest is pages of stack traces."""
    try:
        yield
    except (PySparkException, Py4JError) as failed:  # the latter is raised where Arrow is collected
        lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        reported = [*lines[:1], *causes] or [type(failed).__name__]
        raise CouldNotTell(f"the Kafka connector: {reported[-1]}") from failed


def _place(spans: Sequence[Span]) -> Column:
    """The record's offset in the copy: its own, but for partitions that have a map."""
    place = F.col("offset")
    for span in spans:
        here = (F.col("topic") == span.partition.topic) & (F.col("partition") == span.partition.partition)
        for run in span.map.runs:
            place = F.when(here & (F.col("offset") >= run.source), F.col("offset") + run.shift).otherwise(place)
    return place


def _pending(spans: Sequence[Span]) -> Column:
    """Whether the copy ends before the record's place."""
    pending = F.lit(False)  # noqa: FBT003
    for span in spans:
        if span.end is not None and span.place(span.until) > span.end:
            here = (F.col("topic") == span.partition.topic) & (F.col("partition") == span.partition.partition)
            pending = F.when(here, _place(spans) >= span.end).otherwise(pending)
    return pending


def _identity() -> Column:
    """Spark's hash skips nulls, so that they are said: a tombstone is not a record with an empty value."""
    key, value = F.col("key"), F.col("value")
    headers = F.transform(
        F.coalesce("headers", F.expr("cast(array() as array<struct<key:string,value:binary>>)")),
        lambda header: F.struct(header["key"], header["value"].isNull(), header["value"]),
    )
    return F.xxhash64(key.isNull(), key, value.isNull(), value, F.size(headers), headers)


def digests(records: DataFrame) -> DataFrame:
    """One row for each partition and bucket. Two equal ones hold the same records at the same places."""
    here, then = F.xxhash64("place", "content"), F.xxhash64("place", "time")
    return records.groupBy(*PARTITION, F.expr(f"place div {BUCKET}").alias("bucket")).agg(
        F.count("*").alias("records"),
        F.sum("size").alias("size"),
        F.count_if("stamped").alias("stamped"),
        F.bit_xor(here).alias("content"),
        F.sum(here.bitwiseAND(_LOW)).alias("content_sum"),
        F.bit_xor(then).alias("time"),
        F.sum(then.bitwiseAND(_LOW)).alias("time_sum"),
    )


def unequal_buckets(source: DataFrame, copy: DataFrame) -> DataFrame:
    """(topic, partition, bucket) whose digests differ. Times count only where the producers have set them."""
    ours, theirs = source.alias("ours"), copy.alias("theirs")
    joined = ours.join(theirs, [*PARTITION, "bucket"], "full_outer")

    def same(name: str) -> Column:
        return F.col(f"ours.{name}").eqNullSafe(F.col(f"theirs.{name}"))

    stamped = F.coalesce("ours.stamped", F.lit(0)) + F.coalesce("theirs.stamped", F.lit(0)) > 0
    times = stamped | (same("time") & same("time_sum"))
    alike = same("records") & same("size") & same("content") & same("content_sum") & times
    return joined.where(~alike).select(*PARTITION, "bucket")


def in_buckets(records: DataFrame, buckets: DataFrame) -> DataFrame:
    """Those of `records` that lie in one of `buckets`, or behind the end of the copy."""
    located = records.withColumn("bucket", F.expr(f"place div {BUCKET}"))
    asked = F.broadcast(buckets.withColumn("asked", F.lit(True)))  # noqa: FBT003
    joined = located.join(asked, [*PARTITION, "bucket"], "left")
    return joined.where("asked or pending").drop("bucket", "asked")


# ── how the connector logs in ─────────────────────────────────────────────────────────────────────────────────────


def client_settings(endpoint: Endpoint) -> Mapping[str, str]:
    """`endpoint` in the words of the Java client."""
    settings = {
        "kafka.bootstrap.servers": ",".join(map(str, endpoint.bootstrap)),
        "kafka.security.protocol": endpoint.security_protocol.value,
    }
    if endpoint.sasl is not None:
        settings |= _login(endpoint.sasl)
    if endpoint.tls is not None:
        settings |= _trust(endpoint.tls)
    return settings


def _login(sasl: Sasl) -> dict[str, str]:
    module = "plain.PlainLoginModule" if sasl.mechanism is SaslMechanism.PLAIN else "scram.ScramLoginModule"
    user, password = _quoted(sasl.username), _quoted(sasl.password.reveal())
    return {
        "kafka.sasl.mechanism": sasl.mechanism.value,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f"username={user} password={password};",
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _trust(tls: Tls) -> dict[str, str]:
    settings = {"kafka.ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else ""}
    if tls.ca_location:
        settings |= {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": Path(tls.ca_location).read_text(encoding="utf-8"),
        }
    if tls.certificate_location and tls.key_location:
        settings |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": Path(tls.certificate_location).read_text(encoding="utf-8"),
            "kafka.ssl.keystore.key": Path(tls.key_location).read_text(encoding="utf-8"),
        }
        if tls.key_password is not None:
            settings["kafka.ssl.key.password"] = tls.key_password.reveal()
    return settings
