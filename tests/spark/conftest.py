"""One Spark session for all tests of this folder, and copies that are not quite the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tanist.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tanist.jobs.submission import Submission, environment
from tanist.sandbox.jars import connector_jars
from tests.fetcher.rig import Rig, Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession  # only tests of Spark pay for it

    from tanist.sandbox.cluster import Cluster


@pytest.fixture(scope="session")
def sides(clusters: Mapping[str, Cluster]) -> Iterator[tuple[Side, Side]]:
    both = Side(clusters["east"]), Side(clusters["west"])
    yield both
    for side in both:
        side.close()


@pytest.fixture
def rig(sides: tuple[Side, Side]) -> Rig:
    return Rig(*sides)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """As a job has it, on two cores, with the connector."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only tests of Spark pay for it

    from tanist.spark.session import SETTINGS  # noqa: PLC0415

    submission = Submission(application="", job=None, folder=Path())
    jars = {"spark.jars": ",".join(map(str, connector_jars())), "spark.driver.memory": "1g"}
    settings: dict[str, Any] = {**submission.settings(), **SETTINGS, **jars}
    before = dict(os.environ)
    os.environ.update(environment())
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=settings).getOrCreate()
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)
