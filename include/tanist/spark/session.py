"""The session of a job, and whether the Spark that is installed is one Spark."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql import SparkSession

from tanist.domain.errors import CouldNotTell, Misconfigured, MissingDependency
from tanist.domain.spark_settings import UNENCRYPTED
from tanist.kafka.wire.clock import SystemClock
from tanist.spark.carried import carry_files
from tanist.spark.failures import translated_failures
from tanist.spark.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.endpoint import Endpoint

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
"""Of the session; what the JVM must know at its start is in `tanist.spark_submit`."""


_SHUFFLES_PER_CORE: Final = 2
_ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_REGISTER_SECONDS: Final = 120.0
_SETTLED_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.2


@contextmanager
def session(name: str, endpoints: Sequence[Endpoint], report: Callable[[str], None]) -> Iterator[SparkSession]:
    """A session that ends here, with executors, whose tasks may be sent the logins of `endpoints`.

    Raises:
        MissingDependency: another package has overwritten parts of pyspark.
        Misconfigured: the logins would be sent to executors over unencrypted connections.
        CouldNotTell: no executor has come; Spark failed inside.
    """
    check_installation()
    carry_files()
    builder = SparkSession.builder.appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        check_jvm(spark.version)
        if page := spark.sparkContext.uiWebUrl:
            report(f"Spark's pages: {page}")
        if not str(spark.sparkContext.master).startswith("local"):
            check_encryption(spark, endpoints)
            _await_executors(spark, report)
        with translated_failures(), progress(spark.sparkContext, report):
            yield spark
    finally:
        spark.stop()


def check_encryption(spark: SparkSession, endpoints: Sequence[Endpoint]) -> None:
    """Refuse to send logins where others can read them; what Spark says of itself counts, not what was asked for."""
    settings = dict(spark.sparkContext.getConf().getAll())
    secret = [each.name for each in endpoints if each.sasl or (each.tls and each.tls.key_location)]
    encrypted = any(settings.get(name) == "true" for name in _ENCRYPTED)
    if secret and not encrypted and settings.get(UNENCRYPTED) != "true":
        raise Misconfigured(
            f"the logins of {' and '.join(secret)} would be sent to executors unencrypted: set spark.authenticate, "
            "spark.authenticate.secret and spark.network.crypto.enabled for the Spark cluster and in --properties-file"
        )


def _await_executors(spark: SparkSession, report: Callable[[str], None]) -> None:
    """Those that were asked for, or all that come soon: what a task reads is cut by how many cores there are."""
    clock = SystemClock()
    began = grown = clock.monotonic()
    known, asked = 0, int(spark.sparkContext.getConf().get("spark.executor.instances") or 0)
    while not known or (known != asked and clock.monotonic() - grown < _SETTLED_SECONDS):
        if not known and clock.monotonic() - began > _REGISTER_SECONDS:
            raise CouldNotTell(f"no executor of {spark.sparkContext.master} has come in {_REGISTER_SECONDS:.0f} s")
        if (now := _executors(spark)) > known:
            known, grown = now, clock.monotonic()
        clock.wait(_LOOK_SECONDS)
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(_SHUFFLES_PER_CORE * cores))
    report(f"{known} executors with {cores} cores")


def _executors(spark: SparkSession) -> int:
    """The driver is in the list, too."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001  # no other way


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
