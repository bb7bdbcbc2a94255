"""Spark for tests and benchmarks: in this process, on two cores, with the connector."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanist.spark_submit.jars import connector_jars
from tanist.spark_submit.scratch import private_folder
from tanist.spark_submit.submission import Submission, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession  # only who asks for it pays for it


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
    before = dict(os.environ)
    os.environ.update(environment(scratch))
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=settings).getOrCreate()
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)
