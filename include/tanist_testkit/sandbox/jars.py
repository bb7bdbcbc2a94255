"""Apache Kafka's jars, resolved as `tanist.spark_submit.jars` says, and the releases that a cluster here can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist.spark_submit.jars import Module, resolved

if TYPE_CHECKING:
    from collections.abc import Callable

KAFKA_VERSION: Final = "4.3.1"
_LOG4J2: Final = Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_LOG4J1: Final = Module("org.slf4j", "slf4j-reload4j", "1.7.36")
"""Kafka logs through slf4j 1.7 and its module names no binding: without one every broker is mute. Until 3.9 it also
calls log4j 1 itself, which reload4j continues."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Apache Kafka. `megabytes`: of its jars.

    `zookeeper`: it is run with one, because it has no KRaft, or one without transactions and authorizer.
    """

    version: str
    megabytes: int
    log4j1: bool = False
    zookeeper: bool = False

    @property
    def module(self) -> Module:
        """Its server, with what it logs through."""
        beside = (_LOG4J1 if self.log4j1 else _LOG4J2,)
        title = f"Kafka {self.version}"
        return Module("org.apache.kafka", "kafka_2.13", self.version, beside, title=title, megabytes=self.megabytes)


_RELEASES: Final = {
    each.version: each
    for each in (
        Release("2.4.1", 30, log4j1=True, zookeeper=True),
        Release("2.7.2", 33, log4j1=True, zookeeper=True),
        Release("2.8.2", 36, log4j1=True, zookeeper=True),
        Release("3.5.2", 41, log4j1=True, zookeeper=True),
        Release("3.9.1", 45, log4j1=True),
        Release(KAFKA_VERSION, 44),
        Release("4.4.0", 42),
    )
}
KAFKA: Final = _RELEASES[KAFKA_VERSION].module
CONNECT_MIRROR: Final = Module("org.apache.kafka", "connect-mirror", KAFKA_VERSION, (_LOG4J2,))
_STREAMS_PARTS: Final = (
    Module("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    Module("org.rocksdb", "rocksdbjni", "10.1.3"),
)
STREAMS_EXAMPLES: Final = Module(
    "org.apache.kafka", "kafka-streams-examples", KAFKA_VERSION, (*_STREAMS_PARTS, _LOG4J2), title="Kafka Streams"
)
"""With WordCountDemo, an application whose state is a compacted topic."""


def release(version: str) -> Release:
    """Raises Misconfigured where `version` is none that was tried here."""
    try:
        return _RELEASES[version]
    except KeyError:
        raise Misconfigured(f"Kafka {version[:20]!r} is not one of {', '.join(_RELEASES)}") from None


def class_path(module: Module = KAFKA, say: Callable[[str], None] | None = None) -> str:
    """The class path of `module` and all that it needs; downloads it the first time (a minute), as `say` hears.

    Raises:
        MissingDependency: no Java, or no pyspark.
        DownloadFailed: Ivy could not resolve everything; names its log.
    """
    return f"{resolved(module, say)}/*"
