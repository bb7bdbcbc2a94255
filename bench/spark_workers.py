"""Validation on a Spark cluster of one worker and of two, on the same logs.

    python -m bench.spark_workers [MEGABYTES]

`measure` starts two Kafka clusters of one broker each, and for each number of workers a standalone Spark cluster with
one core a worker, and ends them. MEGABYTES (10^6 bytes) are those of one topic on each side. `seconds` count from the
first question for offsets to the verdict, of the second of two jobs; `job_seconds` from the command to its end, with
the start of Spark and of the executors. Each job has executors of its own. Brokers, driver and workers share this
machine: with as many cores as workers, the second worker cannot halve the time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.rigs import report, rigged
from tanist.domain.validation.job import Level
from tanist.kafka.wire.clock import SystemClock
from tanist.spark_submit.place import SparkPlace
from tanist.spark_submit.submission import Submission
from tanist.spark_submit.submit import run
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spark import HOST, SparkCluster
from tests.spark.asking import validation_job
from tests.spark.forging import append, many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig

WORKERS: Final = (1, 2)
LEVELS: Final = (Level.BATCHES, Level.RECORDS)
PARTITIONS: Final = 8
MEGABYTES: Final = 1000
_RECORD_BYTES: Final = 1024
_BATCH_BYTES: Final = 512 << 10
_START_SECONDS: Final = 120.0
_JOB_SECONDS: Final = 1800.0


def measure(megabytes: int) -> dict[str, Any]:
    """By number of workers and level: seconds, and MB/s of both sides together."""
    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    with rigged(512) as rig, Guardian() as guardian, tempfile.TemporaryDirectory(prefix="bench-spark-") as home:
        at = rig.create("bench-workers", PARTITIONS)
        _fill(rig, at, max(1, megabytes * 1_000_000 // PARTITIONS // _BATCH_BYTES))
        return {f"{each} workers": _measured(rig, at, guardian, Path(home) / str(each), each) for each in WORKERS}


def _measured(
    rig: Rig, at: Sequence[MirrorPartition], guardian: Guardian, home: Path, workers: int
) -> dict[str, dict[str, float]]:
    cluster = SparkCluster(home, guardian)
    try:
        cluster.start(workers, SystemClock().deadline(_START_SECONDS))
        place = SparkPlace(master=cluster.master, properties=cluster.properties)
        return {level.value: [_once(rig, at, level, place, home) for _ in range(2)][-1] for level in LEVELS}
    finally:
        cluster.stop()


def _once(rig: Rig, at: Sequence[MirrorPartition], level: Level, place: SparkPlace, home: Path) -> dict[str, float]:
    """One job, as `tanist validate --master` submits it."""
    job = validation_job(rig, at, level)
    submission = Submission(application="data_validation.py", job=job, folder=home / "results", place=place)
    began = time.monotonic()
    result = run(submission, SystemClock().deadline(_JOB_SECONDS), lambda _: None)
    took = time.monotonic() - began
    assert result["verdict"] == "EQUAL", result["reason"]  # noqa: S101
    seconds, stored = result["seconds"], result["bytes"] / 1e6
    return {"seconds": round(seconds, 1), "MB_per_s": round(stored / seconds), "job_seconds": round(took, 1)}


def _fill(rig: Rig, at: Sequence[MirrorPartition], batches: int) -> None:
    now = time.time_ns() // 1_000_000
    for each in at:
        for side in (rig.source, rig.destination):
            append(side, each, many(range(_BATCH_BYTES // _RECORD_BYTES), range(now, now + batches), _RECORD_BYTES))


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    sys.exit(report(lambda: measure(megabytes), lambda _: []))
