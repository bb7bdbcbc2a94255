"""Apache Kafka's jars, resolved as `tanist.spark_submit.jars` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.spark_submit.jars import Module, resolved

if TYPE_CHECKING:
    from collections.abc import Callable

KAFKA_VERSION: Final = "4.3.1"
_LOG_BINDING: Final = Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
"""Kafka logs through slf4j 1.7 and its module names no binding: without one every broker is mute."""
KAFKA: Final = Module(
    "org.apache.kafka", "kafka_2.13", KAFKA_VERSION, (_LOG_BINDING,), title=f"Kafka {KAFKA_VERSION}", megabytes=44
)
CONNECT_MIRROR: Final = Module("org.apache.kafka", "connect-mirror", KAFKA_VERSION, (_LOG_BINDING,))


def class_path(module: Module = KAFKA, say: Callable[[str], None] | None = None) -> str:
    """The class path of `module` and all that it needs; downloads it the first time (a minute), as `say` hears.

    Raises:
        MissingDependency: no Java, or no pyspark.
        DownloadFailed: Ivy could not resolve everything; names its log.
    """
    return f"{resolved(module, say)}/*"
