"""Spark for tests and benchmarks: in this process, on two cores, with the connector."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.spark_submit.jars import Module, resolved
from tanist.spark_submit.scratch import private_folder
from tanist.spark_submit.submission import Submission, environment, spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession  # only who asks for it pays for it


SPARK_CONNECTOR: Final = Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
"""What the reader of the product is compared with: the newest of Spark 4.0 whose token provider is published too."""


def connector_jars() -> tuple[Path, ...]:
    """What Spark needs to read Kafka and does not have."""
    there = {_artifact(jar) for jar in (spark_home() / "jars").glob("*.jar")}
    return tuple(sorted(jar for jar in resolved(SPARK_CONNECTOR).glob("*.jar") if _artifact(jar) not in there))


def _artifact(jar: Path) -> str:
    """The file's name without its version."""
    return re.split(r"-\d", jar.stem.replace("kafka-0-10", "kafka010"))[0]


@contextmanager
def started(memory: str = "1g", *, brief: bool = True) -> Iterator[SparkSession]:
    """As a job has it; `brief`: its JVM compiles little, which the connector suffers from."""
    submission = Submission(application="", job=None, folder=Path(), brief=brief)
    with private_folder() as scratch:
        yield from _session(submission, scratch, memory)


def _session(submission: Submission, scratch: Path, memory: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from tanist.spark.session import SETTINGS  # noqa: PLC0415

    jars = {"spark.jars": ",".join(map(str, connector_jars())), "spark.driver.memory": memory}
    settings: dict[str, Any] = {**submission.settings(scratch), **SETTINGS, **jars}
    before, heard = dict(os.environ), signal.getsignal(signal.SIGINT)
    os.environ.update(environment(scratch))
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=settings).getOrCreate()
    yield session
    session.stop()
    signal.signal(signal.SIGINT, heard)  # else Ctrl-C would still cancel the jobs of a session that has ended
    os.environ.clear()
    os.environ.update(before)
