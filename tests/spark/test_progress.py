"""What a job says while it runs."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tanist.spark import batches, record_source
from tanist.spark.log_source import tasks
from tanist.spark.progress import progress
from tanist.spark.spans import LogSpan
from tests.spark.forging import append, many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import Rig

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # pyspark leaves that behind


def test_a_job_says_how_much_it_has_read(spark: SparkSession, rig: Rig, topic_name: str) -> None:
    """Tasks count what they have read, wherever they run and whatever they read it for, and the driver hears of it."""
    [at] = rig.create(topic_name)
    append(rig.source, at, many(range(5000), [time.time_ns() // 1_000_000] * 4))
    read = tasks(spark, [LogSpan(partition=at, start=0, until=20_000)])
    for name, frame in (("batches", batches.frame), ("digests", record_source.digest_frame)):
        reported: list[str] = []
        with progress(spark.sparkContext, reported.append):
            found = frame(spark, f"{topic_name}-{name}", rig.source.cluster.endpoint(), read).collect()
        size = sum(row["size"] for row in found)
        assert size > 2_000_000
        told = rf"[1-9]\d* tasks done, {size / 1e6:,.0f} MB \([\d,]+ MB/s\) read"
        assert re.fullmatch(told, reported[-1]), (name, reported)
