"""One Spark session for all tests of this folder, and copies that are not quite the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tanist.kafka.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tests.kafka.failover.conftest import pair
from tests.spark.sessions import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession  # only tests of Spark pay for it

__all__ = ["pair"]  # the clusters of the failover tests, with logins and access rules


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One for all tests of this folder."""
    with started() as session:
        yield session
