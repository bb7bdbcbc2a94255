"""The session of a job, and whether the Spark that is installed is one Spark."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql import SparkSession

from tanist.domain.errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
"""Of the session; what the JVM must know at its start is in `tanist.spark_submit`."""


@contextmanager
def session(name: str) -> Iterator[SparkSession]:
    """A session that ends here.

    Raises:
        MissingDependency: another package has overwritten parts of pyspark.
    """
    check_installation()
    builder = SparkSession.builder.appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        check_jvm(spark.version)
        yield spark
    finally:
        spark.stop()


def check_installation(imported: str = pyspark.__version__) -> None:
    """Refuse a pyspark whose files are another version's: the first Python worker would die of it, much later.

    pyspark-client, which Airflow's Spark provider asks for, has 366 files in common with pyspark.
    """
    installed = version("pyspark")
    if imported != installed:
        raise MissingDependency(
            f"pyspark {installed} is installed, but its files are those of {imported} (pyspark-client?): "
            f"pip install --force-reinstall --no-deps pyspark=={installed}"
        )


def check_jvm(running: str) -> None:
    """Refuse a JVM of another Spark than ours, $SPARK_HOME leads there."""
    if running != pyspark.__version__:
        raise MissingDependency(
            f"the JVM runs Spark {running} but pyspark is {pyspark.__version__}: check $SPARK_HOME and spark-submit"
        )
