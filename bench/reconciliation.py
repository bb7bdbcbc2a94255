"""Reconciliation beside a plain consumer and Spark's official Kafka connector, on the same logs.

    python -m bench.reconciliation [MEGABYTES] [GIGABYTES ...]

`measure` starts two clusters of its own, one broker each, and one Spark on two cores, and ends them. The copy has the
source's records of 100 B as MirrorMaker 2 leaves them: at other offsets (the source has lost its first batch to
retention) and in smaller batches. Seconds count from the first question for offsets to the written runs, of the
fastest of `RUNS`. `records_per_s` counts the records of both logs; the consumer (librdkafka, one process) reads the
same, one log after the other, and does nothing with them. The connector computes a digest of each `IN_A_BUCKET`
milliseconds of both sides and compares them: the first step of a reconciliation, which tells no offset.
`all_buckets_differ_s` is a reconciliation of as many records, with one of each batch missing in the copy.
`peak_MB` is the most resident memory of the JVM and of the largest Python worker in a reconciliation of so many GB on
each side.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812, TID253  # the connector is held against it

from bench.rigs import report, rigged
from bench.validation import consumed, forget_peaks, peaks
from tanist.domain.reconciliation.job import ReconciliationJob, TopicPair
from tanist.spark.reconciliation.job import reconcile
from tanist.spark.reconciliation.time_buckets import IN_A_BUCKET
from tests.spark.forging import append, many
from tests.spark.sessions import started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig, RigCluster

PARTITIONS: Final = 8
NEARLY_EMPTY: Final = 200
SIZE: Final = 100
BATCH: Final = 5_000
"""Records of a batch of the source."""
COPIED_BATCH: Final = 625
"""Records of a batch of the copy."""
LOST: Final = 1_000
"""Records that the source has lost to retention in each partition."""
OLDEST_MS: Final = 86_400_000
KEPT: Final = {"retention.ms": "-1"}
MEGABYTES: Final = 1000
"""Of each side."""
GIGABYTES: Final = (1, 2, 5)
RUNS: Final = 3
SKEWED: Final = 0.9
"""Of the records of one topic in one partition."""
TIMES_CONSUMER: Final = 2.0
SECONDS_EMPTY: Final = 20.0
TIMES_EVEN: Final = 1.3
TIMES_MEMORY: Final = 1.3
"""Peak memory with the most data, in that with the least."""


def measure(megabytes: int, gigabytes: Sequence[int] = GIGABYTES) -> dict[str, Any]:
    """Seconds and records/s of each reader, then what many partitions, skew and size make of it."""
    with rigged(512) as rig, started("2g", brief=False) as spark:
        found = _compared(rig, spark, megabytes)
        found["skew_times_even"] = _skewed(rig, spark, megabytes, found["seconds"]["reconciliation"])
        found["all_buckets_differ_s"] = _different(rig, spark, megabytes)
        found["nearly_empty_s"] = _nearly_empty(rig, spark)
        found["peak_MB"] = _memory(rig, spark, gigabytes)
        return found


def _compared(rig: Rig, spark: SparkSession, megabytes: int) -> dict[str, Any]:
    log = Filled.new(rig, "bench-even", PARTITIONS).grown([_batches(megabytes, 1 / PARTITIONS)] * PARTITIONS)
    seconds = {
        "reconciliation": _fastest(spark, log),
        "connector": min(_connector(spark, log) for _ in range(RUNS)),
        "consumer": min(_consumer(log) for _ in range(RUNS)),
    }
    return {
        "records": log.records,
        "seconds": {name: round(each, 2) for name, each in seconds.items()},
        "records_per_s": {name: round(2 * log.records / each) for name, each in seconds.items()},
        "times_consumer": round(seconds["consumer"] / seconds["reconciliation"], 2),
        "times_connector": round(seconds["connector"] / seconds["reconciliation"], 2),
    }


def _skewed(rig: Rig, spark: SparkSession, megabytes: int, even: float) -> float:
    """Seconds where one partition has most records, in those of the same records spread evenly."""
    rest = _batches(megabytes, (1 - SKEWED) / (PARTITIONS - 1))
    log = Filled.new(rig, "bench-skewed", PARTITIONS).grown([_batches(megabytes, SKEWED), *[rest] * (PARTITIONS - 1)])
    return round(_fastest(spark, log) / even, 2)


def _different(rig: Rig, spark: SparkSession, megabytes: int) -> float:
    """Seconds where every record is read twice and paired, because one of each batch was lost."""
    log = Filled.new(rig, "bench-different", PARTITIONS, loses=True)
    return round(_fastest(spark, log.grown([_batches(megabytes, 1 / PARTITIONS)] * PARTITIONS)), 2)


def _nearly_empty(rig: Rig, spark: SparkSession) -> float:
    """Seconds for many partitions of ten records."""
    log = Filled.new(rig, "bench-nearly-empty", NEARLY_EMPTY)
    now = time.time_ns() // 1_000_000
    for side, places in log.both:
        for each in places:
            append(side, each, many(range(10), [now], SIZE))
    return float(log.reconciled(spark)["seconds"])


def _memory(rig: Rig, spark: SparkSession, gigabytes: Sequence[int]) -> dict[str, dict[str, int]]:
    """Peaks by GB on each side: one topic, which grows."""
    log = Filled.new(rig, "bench-memory", PARTITIONS)
    found: dict[str, dict[str, int]] = {}
    for now, more in zip(gigabytes, np.diff([0, *gigabytes]).tolist(), strict=True):
        log = log.grown([_batches(1000 * more, 1 / PARTITIONS)] * PARTITIONS)
        forget_peaks()
        log.reconciled(spark)
        found[f"{now} GB"] = peaks()
    return found


# ── a log and its copy ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic, and its copy as MirrorMaker 2 leaves it; `batches` of the source in each partition, one ms a record."""

    rig: Rig
    at: tuple[MirrorPartition, ...]
    there: tuple[MirrorPartition, ...]
    began_ms: int
    batches: tuple[int, ...]
    loses: bool = False
    """Whether the copy lacks a record of each batch of the source: no bucket is the same on both sides."""

    @classmethod
    def new(cls, rig: Rig, topic: str, partitions: int, *, loses: bool = False) -> Self:
        """Empty. The source has lost its first batch to retention."""
        at = rig.source.create(topic, partitions, config=KEPT)
        there = rig.destination.create(f"east.{topic}", partitions, config=KEPT)
        began = time.time_ns() // 1_000_000 - OLDEST_MS
        for each in at:
            append(rig.source, each, many(range(LOST), [began - LOST], SIZE))
            rig.source.delete_before(each, LOST)
        return cls(rig, at, there, began, (0,) * partitions, loses)

    def grown(self, more: Sequence[int]) -> Self:
        """With so many batches more in each partition."""
        for each, copy, there_are, count in zip(self.at, self.there, self.batches, more, strict=True):
            first = self.began_ms + there_are * BATCH
            times = range(first, first + count * BATCH, BATCH)
            append(self.rig.source, each, many(range(BATCH), times, SIZE))
            append(self.rig.destination, copy, _copies(times, int(self.loses)))
        batches = tuple(were + count for were, count in zip(self.batches, more, strict=True))
        return replace(self, batches=batches)

    @property
    def records(self) -> int:
        """Of the source."""
        return sum(self.batches) * BATCH

    @property
    def both(self) -> tuple[tuple[RigCluster, tuple[MirrorPartition, ...]], ...]:
        return (self.rig.source, self.at), (self.rig.destination, self.there)

    def reconciled(self, spark: SparkSession) -> dict[str, Any]:
        """The result: each record that was copied has its copy, and a run for each that was not says where."""
        source, destination = (side.cluster.endpoint() for side, _ in self.both)
        pair = TopicPair(self.at[0].topic, self.there[0].topic, len(self.at))
        job = ReconciliationJob(run="bench", source=source, destination=destination, pairs=(pair,))
        with TemporaryDirectory() as folder:
            result = reconcile(spark, job, Path(folder), lambda _: None)
        lost = [count if self.loses else 0 for count in self.batches]
        odd = [
            each
            for each, count in zip(result["partitions"], lost, strict=True)
            if each["reason"] or each["lost"] != count or not count <= each["runs"] <= count + 1
        ]
        assert not odd, odd[:1]  # noqa: S101
        return result


def _copies(times: range, lost: int) -> Iterator[bytearray]:
    """The records of the source's batches, in smaller ones, but for the `lost` last of each."""
    edges = [*range(0, BATCH, COPIED_BATCH), BATCH - lost]
    parts = [many(range(n, end), times, SIZE) for n, end in pairwise(edges)]
    for together in zip(*parts, strict=True):
        yield from together


def _batches(megabytes: int, share: float) -> int:
    return max(1, int(megabytes * 1_000_000 * share) // (BATCH * SIZE))


# ── who reads it ──────────────────────────────────────────────────────────────────────────────────────────────────


def _fastest(spark: SparkSession, log: Filled) -> float:
    return min(float(log.reconciled(spark)["seconds"]) for _ in range(RUNS))


def _consumer(log: Filled) -> float:
    """Seconds for the records of both logs, one after the other."""
    return sum(consumed(side, at, log.records) for side, at in log.both)


def _connector(spark: SparkSession, log: Filled) -> float:
    """Seconds for the digests of both sides and their comparison."""
    began = time.monotonic()
    ours, theirs = (_digests(spark, side, at[0].topic) for side, at in log.both)
    unequal = ours.exceptAll(theirs).count()
    assert not unequal, unequal  # noqa: S101
    return time.monotonic() - began


def _digests(spark: SparkSession, cluster: RigCluster, topic: str) -> DataFrame:
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.servers).option("subscribe", topic)
    rows = read.option("includeHeaders", "true").option("startingOffsets", "earliest").load()
    identity = F.xxhash64("key", "value", F.size("headers"), "headers", "timestamp")
    bucket = F.expr(f"unix_millis(timestamp) div {IN_A_BUCKET}")
    return rows.groupBy("partition", bucket).agg(F.count("*"), F.bit_xor(identity))


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    wrong = []
    if (times := found["times_consumer"]) < TIMES_CONSUMER:
        wrong.append(f"{times} times the consumer")
    if (times := found["skew_times_even"]) > TIMES_EVEN:
        wrong.append(f"skew: {times} times even")
    if (took := found["nearly_empty_s"]) > SECONDS_EMPTY:
        wrong.append(f"nearly empty: {took} s")
    least, most = (list(found["peak_MB"].values())[n] for n in (0, -1))
    wrong += [
        f"memory of the {who}: {low} to {most[who]} MB" for who, low in least.items() if most[who] > TIMES_MEMORY * low
    ]
    return wrong


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    gigabytes = tuple(map(int, sys.argv[2:])) or GIGABYTES
    sys.exit(report(lambda: measure(megabytes, gigabytes), missed))
