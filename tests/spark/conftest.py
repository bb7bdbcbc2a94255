"""One Spark session for all tests of this folder, and copies that are not quite the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tanist.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tests.fetcher.rig import Rig, Side
from tests.spark.sessions import started

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
    """One for all tests of this folder."""
    with started() as session:
        yield session
