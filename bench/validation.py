"""Validation by raw batches beside the official Kafka connector, on the same topic, equal on both sides.

    python -m bench.validation [MEGABYTES]

`measure` starts two clusters of its own, one broker each, and one Spark on two cores, and ends them. MB/s count what
both sides store, 10^6 bytes, from the first question for offsets to the verdict. Each level runs twice; the second
run counts.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from bench.rigs import report, rigged
from tanist.domain.validation.job import Level
from tests.spark.asking import validated, validation_job
from tests.spark.forging import append, many
from tests.spark.sessions import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tanist.domain.names import TopicPartition
    from tests.kafka.fetcher.rig import Rig

PARTITIONS: Final = 8
BATCH_BYTES: Final = 512 << 10
SIZES: Final = (1024, 100)
MEGABYTES: Final = 2500
"""Of each topic on each side: with less, starting the job (2 s) is most of what is measured."""
RATIO: Final = 3.0
"""How many times the connector's speed that of batches must be."""
MEGABYTES_PER_SECOND: Final = 800.0
"""Of batches, with records of 1 KB."""


def measure(megabytes: int) -> dict[str, Any]:
    """For each size of records: what was read, seconds and MB/s of both levels, and their ratio."""
    with rigged(512) as rig, started("2g", brief=False) as spark:
        return {f"{size} B": _compared(rig, spark, size, megabytes) for size in SIZES}


def _compared(rig: Rig, spark: SparkSession, size: int, megabytes: int) -> dict[str, Any]:
    at = rig.create(f"bench-{size}", PARTITIONS)
    _fill(rig, at, size, megabytes)
    batches, connector = (_second(rig, spark, at, level) for level in (Level.BATCHES, Level.RECORDS))
    stored = batches["bytes"] / 1e6
    return {
        "records": batches["records"],
        "MB": round(stored),
        "batches_s": batches["seconds"],
        "connector_s": connector["seconds"],
        "batches_MB_per_s": round(stored / batches["seconds"], 1),
        "connector_MB_per_s": round(stored / connector["seconds"], 1),
        "ratio": round(connector["seconds"] / batches["seconds"], 2),
    }


def _second(rig: Rig, spark: SparkSession, at: tuple[TopicPartition, ...], level: Level) -> dict[str, Any]:
    """The result of a warm run."""
    results = [validated(spark, validation_job(rig, at, level)) for _ in range(2)]
    assert all(result["verdict"] == "EQUAL" for result in results), results  # noqa: S101
    return results[-1]


def _fill(rig: Rig, at: tuple[TopicPartition, ...], size: int, megabytes: int) -> None:
    now = time.time_ns() // 1_000_000
    batches = max(1, megabytes * 1_000_000 // (BATCH_BYTES * PARTITIONS))
    for each in at:
        for side in (rig.source, rig.destination):
            append(side, each, many(range(BATCH_BYTES // size), range(now, now + batches), size))


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    wrong = [f"{size}: {each['ratio']} times the connector" for size, each in found.items() if each["ratio"] < RATIO]
    if (speed := found["1024 B"]["batches_MB_per_s"]) < MEGABYTES_PER_SECOND:
        wrong.append(f"1024 B: {speed} MB/s")
    return wrong


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    sys.exit(report(lambda: measure(megabytes), missed))
