"""Failures of Spark as the user reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import CouldNotTell
from tanist.spark.failures import translated_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_failure_of_spark_is_one_line_and_no_bug(spark: SparkSession) -> None:
    """Its cause, without pages of stack traces."""
    failing = spark.range(1).selectExpr("raise_error('a disk is full')")
    with pytest.raises(CouldNotTell, match=r"Spark: .*a disk is full") as failed, translated_failures():
        failing.collect()
    assert "\n" not in failed.value.reason
