"""Validation, level by level, beside a plain consumer and Spark's official Kafka connector, on the same logs.

    python -m bench.validation [MEGABYTES] [GIGABYTES ...]

`measure` starts two clusters of its own, one broker each, and one Spark on two cores, and ends them. Both sides hold
the same records. Seconds count from the first question for offsets to the verdict, of the fastest of `RUNS`; MB are
what both sides store, 10^6 bytes. `records_per_s` counts those of the source, each compared with its copy; for the
consumer (librdkafka, one process, the fastest of as many) those that it reads, of the source alone. The connector
computes digests of both sides, as level `records` did before it had a reader of its own.

`cpu_us` is processor time of this process for each record of one side, in microseconds: the reader of level `records`
and the consumer, without Spark and without the broker. It depends little on what else the machine does. `peak_MB` is
the most resident memory of the JVM and of the largest Python worker in a validation of so many GB on each side.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer  # noqa: TID253  # what it is held against
from confluent_kafka import TopicPartition as Place  # noqa: TID253  # what it is held against
from pyspark.sql import functions as F  # noqa: N812, TID253  # the connector is held against it

from bench.rigs import report, rigged
from tanist.domain.validation.job import Level
from tanist.kafka.wire.requests import End
from tanist.spark.record_source import digest_reader
from tanist.spark.spans import LogSpan
from tests.spark.asking import validated, validation_job
from tests.spark.forging import append, many
from tests.spark.sessions import started

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig, RigCluster

PARTITIONS: Final = 8
NEARLY_EMPTY: Final = 200
BATCH_BYTES: Final = 512 << 10
SIZES: Final = (1024, 100)
MEGABYTES: Final = 1000
"""Of each topic on each side: with less, starting the job (2 s) is most of what is measured."""
GIGABYTES: Final = (1, 2, 5)
"""Of the topic on each side for which memory is measured."""
RUNS: Final = 3
SKEWED: Final = 0.9
"""Of the records of one topic in one partition."""
TIMES_CONSUMER: Final = 2.0
SECONDS_EMPTY: Final = 20.0
TIMES_EVEN: Final = 1.3
MEGABYTES_PER_SECOND: Final = 800.0
"""Of batches, with records of 1 KB."""
TIMES_MEMORY: Final = 1.3
"""Peak memory with the most data, in that with the least."""


def measure(megabytes: int, gigabytes: Sequence[int] = GIGABYTES) -> dict[str, Any]:
    """For each size of records and each reader: seconds, records/s, MB/s; then what does not depend on size."""
    found: dict[str, Any] = {}
    with rigged(512) as rig, started("2g", brief=False) as spark:
        parts: dict[str, Callable[[], Any]] = {
            **{f"{size} B": partial(_compared, rig, spark, size, megabytes) for size in SIZES},
            "small_batches_cpu_us": lambda: _small_batches(rig),
            "nearly_empty_s": lambda: _nearly_empty(rig, spark),
            "skew_times_even": lambda: _skew(rig, spark, megabytes),
            "peak_MB": lambda: _memory(rig, spark, gigabytes),
        }
        for name, part in parts.items():
            found[name] = part()
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def _compared(rig: Rig, spark: SparkSession, size: int, megabytes: int) -> dict[str, Any]:
    at = rig.create(f"bench-{size}", PARTITIONS)
    _fill(rig, at, size, [_batches(megabytes, 1 / PARTITIONS)] * PARTITIONS)
    batches, records = (_fastest(rig, spark, at, level) for level in (Level.BATCHES, Level.RECORDS))
    count, stored = records["records"], batches["bytes"] / 1e6
    seconds = {
        "batches": batches["seconds"],
        "records": records["seconds"],
        "connector": min(_connector(rig, spark, at) for _ in range(RUNS)),
        "consumer": min(consumed(rig.source, at, count) for _ in range(RUNS)),
    }
    cpu = {"reader": _cpu(lambda: _reader(rig.source, at)), "consumer": _cpu(lambda: consumed(rig.source, at, count))}
    return {
        "records": count,
        "cpu_us": {name: round(each / count * 1e6, 2) for name, each in cpu.items()},
        "MB": round(stored),
        "seconds": {name: round(each, 2) for name, each in seconds.items()},
        "records_per_s": {name: round(count / each) for name, each in seconds.items()},
        "batches_MB_per_s": round(stored / batches["seconds"]),
        "records_times_consumer": round(seconds["consumer"] / seconds["records"], 2),
        "records_times_connector": round(seconds["connector"] / seconds["records"], 2),
    }


def _fastest(rig: Rig, spark: SparkSession, at: Sequence[MirrorPartition], level: Level) -> dict[str, Any]:
    """The result of the fastest run."""
    results = [validated(spark, validation_job(rig, at, level)) for _ in range(RUNS)]
    assert all(result["verdict"] == "EQUAL" for result in results), results  # noqa: S101
    return min(results, key=lambda result: float(result["seconds"]))


def consumed(cluster: RigCluster, at: Sequence[MirrorPartition], count: int) -> float:
    """Seconds of a plain consumer for all records; nothing is done with them."""
    settings = {"bootstrap.servers": cluster.servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    began = time.monotonic()
    consumer.assign([Place(each.topic, each.partition, OFFSET_BEGINNING) for each in at])
    while count > 0:
        count -= sum(message.error() is None for message in consumer.consume(10_000, 1.0))
    took = time.monotonic() - began
    consumer.close()
    return took


def _reader(cluster: RigCluster, at: Sequence[MirrorPartition]) -> None:
    """The digests of all records, as one task of level `records` makes them."""
    ends = cluster.ends(at, End.LAST_STABLE)
    reader = digest_reader(
        cluster.cluster.endpoint(), [tuple(LogSpan(partition=p, start=0, until=ends[p]) for p in at)]
    )
    for task in reader.partitions():
        for _ in reader.read(task):
            pass


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _connector(rig: Rig, spark: SparkSession, at: Sequence[MirrorPartition]) -> float:
    """Seconds of the connector for a digest of each 10,000 offsets on both sides, and their comparison."""
    began = time.monotonic()
    ours, theirs = (_digests(spark, side, at[0].topic) for side in (rig.source, rig.destination))
    unequal = ours.exceptAll(theirs).count()
    assert not unequal, unequal  # noqa: S101
    return time.monotonic() - began


def _digests(spark: SparkSession, cluster: RigCluster, topic: str) -> DataFrame:
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.servers).option("subscribe", topic)
    rows = read.option("includeHeaders", "true").option("startingOffsets", "earliest").load()
    identity = F.xxhash64("offset", "key", "value", F.size("headers"), "headers", "timestamp")
    return rows.groupBy("partition", F.expr("offset div 10000")).agg(F.count("*"), F.bit_xor(identity))


def _skew(rig: Rig, spark: SparkSession, megabytes: int) -> float:
    """Seconds of level `records` where one partition has most records, in those of the same records spread evenly."""
    took: list[float] = []
    for name, most in (("even", 1 / PARTITIONS), ("skewed", SKEWED)):
        at = rig.create(f"bench-{name}", PARTITIONS)
        rest = (1 - most) / (PARTITIONS - 1)
        _fill(rig, at, 100, [_batches(megabytes, most), *[_batches(megabytes, rest)] * (PARTITIONS - 1)])
        took.append(_fastest(rig, spark, at, Level.RECORDS)["seconds"])
    even, skewed = took
    return round(skewed / even, 2)


def _nearly_empty(rig: Rig, spark: SparkSession) -> dict[str, float]:
    """Seconds for many partitions of ten records, by level."""
    at = rig.create("bench-nearly-empty", NEARLY_EMPTY)
    now = time.time_ns() // 1_000_000
    for side in (rig.source, rig.destination):
        for each in at:
            append(side, each, many(range(10), [now]))
    levels = (Level.BATCHES, Level.RECORDS)
    return {level.value: validated(spark, validation_job(rig, at, level))["seconds"] for level in levels}


def _small_batches(rig: Rig) -> float:
    """Processor time of the reader for each record in batches of ten, in microseconds."""
    at, batches = rig.create("bench-small"), 5000
    now = time.time_ns() // 1_000_000
    append(rig.source, at[0], many(range(10), range(now, now + batches)))
    return round(min(_cpu(lambda: _reader(rig.source, at)) for _ in range(RUNS)) / (10 * batches) * 1e6, 2)


def _batches(megabytes: int, share: float) -> int:
    return max(1, int(megabytes * 1_000_000 * share) // BATCH_BYTES)


def _fill(rig: Rig, at: Sequence[MirrorPartition], size: int, batches: Sequence[int]) -> None:
    """So many batches in each of the partitions, the same on both sides."""
    now = time.time_ns() // 1_000_000
    for each, count in zip(at, batches, strict=True):
        for side in (rig.source, rig.destination):
            append(side, each, many(range(BATCH_BYTES // size), range(now, now + count), size))


def _memory(rig: Rig, spark: SparkSession, gigabytes: Sequence[int]) -> dict[str, dict[str, dict[str, int]]]:
    """Peaks by GB on each side and level: one topic of 100 B, which grows."""
    at = rig.create("bench-memory", PARTITIONS)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for now, more in zip(gigabytes, np.diff([0, *gigabytes]).tolist(), strict=True):
        _fill(rig, at, 100, [_batches(1000 * more, 1 / PARTITIONS)] * PARTITIONS)
        for level in (Level.BATCHES, Level.RECORDS):
            forget_peaks()
            assert validated(spark, validation_job(rig, at, level))["verdict"] == "EQUAL"  # noqa: S101
            found.setdefault(f"{now} GB", {})[level.value] = peaks()
        print(f"{now} GB: {found[f'{now} GB']}", file=sys.stderr, flush=True)
    return found


def peaks() -> dict[str, int]:
    """The most memory of our JVM and of its largest Python worker since `forget_peaks`, in MB."""
    found = {"jvm": 0, "worker": 0}
    for process, name in _spark_processes():
        try:
            status = (process / "status").read_text()
            peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        except (OSError, StopIteration):  # it has ended
            continue
        found[name] = max(found[name], peak * 1024 // 1_000_000)
    return found


def forget_peaks() -> None:
    """From now on `peaks` are those of what comes (proc(5): 5 in clear_refs resets VmHWM)."""
    for process, _ in _spark_processes():
        with suppress(OSError):  # it has ended
            (process / "clear_refs").write_text("5")


def _spark_processes() -> list[tuple[Path, str]]:
    """Those below this process: others may run Spark on this machine."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat, command = (process / "stat").read_text(), (process / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(process.name)] = int(stat.rpartition(")")[2].split()[1])
        for name, words in (("jvm", b"org.apache.spark.deploy"), ("worker", b"pyspark.daemon")):
            if words in command:
                names[int(process.name)] = name
    return [(Path("/proc") / str(pid), name) for pid, name in names.items() if os.getpid() in _above(pid, parents)]


def _above(pid: int, parents: dict[int, int]) -> set[int]:
    found = set()
    while pid := parents.get(pid, 0):
        found.add(pid)
    return found


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    wrong = []
    if (times := found["100 B"]["records_times_consumer"]) < TIMES_CONSUMER:
        wrong.append(f"100 B: {times} times the consumer")
    if (speed := found["1024 B"]["batches_MB_per_s"]) < MEGABYTES_PER_SECOND:
        wrong.append(f"1024 B: {speed} MB/s")
    if found["skew_times_even"] > TIMES_EVEN:
        wrong.append(f"skew: {found['skew_times_even']} times even")
    if max(found["nearly_empty_s"].values()) > SECONDS_EMPTY:
        wrong.append(f"nearly empty: {found['nearly_empty_s']}")
    measured = tuple(found["peak_MB"].values())
    least, most = measured[0], measured[-1]
    wrong += [
        f"memory at {level} of the {who}: {low} to {most[level][who]} MB"
        for level, peaks_then in least.items()
        for who, low in peaks_then.items()
        if most[level][who] > TIMES_MEMORY * low
    ]
    return wrong


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    gigabytes = tuple(map(int, sys.argv[2:])) or GIGABYTES
    sys.exit(report(lambda: measure(megabytes, gigabytes), missed))
