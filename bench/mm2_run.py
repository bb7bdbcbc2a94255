"""The peer: MirrorMaker 2 as a process of its own, with the settings that suit this work best."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bench.pair import DESTINATION, SOURCE
from tanist.spark_submit.jars import java
from tanist_testkit.sandbox.jars import CONNECT_MIRROR, class_path
from tanist_testkit.sandbox.node_log import LOG4J2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.load import Load
    from bench.pair import Pair
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.processes import Process

NAME: Final = "MM2"
LEFTOVER: Final = f"mm2-offset-syncs.{DESTINATION}.internal"
"""MM2's topic at the source."""
HEAP_MB: Final = 1024
"""More heap than it needs here does not make it faster."""
_JAVA: Final = ("-XX:+UseParallelGC", "-Xshare:auto", "-XX:-UsePerfData")
"""Throughput before pauses."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"

_FLOW: Final[Mapping[str, Any]] = {
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.checkpoints.interval.seconds": 5,
    "refresh.topics.interval.seconds": 5,
    "refresh.groups.interval.seconds": 5,
    "replication.factor": 1,
    "checkpoints.topic.replication.factor": 1,
    "heartbeats.topic.replication.factor": 1,
    "offset-syncs.topic.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "status.storage.replication.factor": 1,
    "config.storage.replication.factor": 1,
    "offset.lag.max": 100,
    "tasks.max": 2,
}
_CONSUMER: Final[Mapping[str, Any]] = {
    "max.poll.records": 20_000,
    "fetch.min.bytes": 1 << 20,
    "fetch.max.wait.ms": 100,
    "max.partition.fetch.bytes": 8 << 20,
    "receive.buffer.bytes": 1 << 20,
}
_PRODUCER: Final[Mapping[str, Any]] = {
    "batch.size": 512 << 10,
    "linger.ms": 20,
    "buffer.memory": 128 << 20,
    "max.in.flight.requests.per.connection": 5,  # Connect's default of 1 would slow it down
    "enable.idempotence": "true",
    "send.buffer.bytes": 1 << 20,
}
_WORKER: Final[Mapping[str, Any]] = {
    "offset.flush.interval.ms": 10_000,
    "offset.flush.timeout.ms": 30_000,
    "scheduled.rebalance.max.delay.ms": 0,
}


def start(pair: Pair, load: Load, *, more: Mapping[str, Any] = _NOTHING, heap_mb: int = HEAP_MB) -> Process:
    """Copy the topic of `load`, or several, separated by commas. `more`: settings beside ours, or instead of them.

    Raises:
        MissingDependency, DownloadFailed: no Java, or no MM2. ProcessFailed: it could not be started.
    """
    config, logging = pair.home / "mm2.properties", pair.home / "mm2-log4j2.yaml"
    config.write_text(properties(pair, load, more), encoding="ascii")
    logging.write_text(LOG4J2, encoding="ascii")
    options = (f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", *_JAVA, f"-Dlog4j2.configurationFile={logging}")
    argv = [java(), "-cp", class_path(CONNECT_MIRROR), *options, _MAIN, str(config), "--clusters", DESTINATION]
    return pair.guardian.spawn(argv, pair.home / "mm2.log")


def copy_of(topic: str) -> str:
    """What the copy is called (DefaultReplicationPolicy)."""
    return f"{SOURCE}.{topic}"


def properties(pair: Pair, load: Load, more: Mapping[str, Any] = _NOTHING) -> str:
    """The file that MM2 is started with; `more` as in `start`."""
    lines: dict[str, Any] = {
        "clusters": f"{SOURCE},{DESTINATION}",
        f"{SOURCE}.bootstrap.servers": pair.source.bootstrap_servers,
        f"{DESTINATION}.bootstrap.servers": pair.destination.bootstrap_servers,
        f"{SOURCE}->{DESTINATION}.enabled": "true",
        f"{SOURCE}->{DESTINATION}.topics": load.topic,
        f"{DESTINATION}->{SOURCE}.enabled": "false",
        **_FLOW,
        **{f"{SOURCE}.consumer.{key}": value for key, value in _CONSUMER.items()},
        **{f"{DESTINATION}.producer.{key}": value for key, value in _PRODUCER.items()},
        f"{DESTINATION}.producer.compression.type": load.codec,
        **{f"{DESTINATION}.{key}": value for key, value in _WORKER.items()},
        **_secured(pair.source),
        **_secured(pair.destination),
        **more,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _secured(cluster: SandboxCluster) -> dict[str, Any]:
    tls = cluster.endpoint().tls
    if tls is None:
        return {}
    keys = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": tls.ca_location}
    return {f"{cluster.name}.{key}": value for key, value in keys.items()}
