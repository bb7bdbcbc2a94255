"""How Java is called to run one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist_testkit.sandbox.node_log import logging_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist_testkit.sandbox.properties import Layout
    from tanist_testkit.sandbox.spec import ClusterSpec

_ZOOKEEPER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SHORT_RUN: Final = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a Java run where starting is most of the work."""
_BRIEF_LIFE: Final = (*SHORT_RUN, "-XX:CompileThresholdScaling=0.2")
"""For a node of some minutes: compiled five times sooner, its requests take a fifth less processor in all."""


def main_class(spec: ClusterSpec, node: int) -> str:
    """What `node` runs."""
    return _ZOOKEEPER if spec.release.zookeeper and node == spec.controller_id else "kafka.Kafka"


def node_command(java: Sequence[str], spec: ClusterSpec, layout: Layout, node: int) -> list[str]:
    """`java`: Java with its class path."""
    heap, home = spec.heap_of(node), layout.node(node)
    fast = spec.full_speed and node in spec.broker_ids
    speed = ("-Xshare:auto", "-XX:+UseG1GC", f"-Xms{heap}m") if fast else _BRIEF_LIFE
    safe = (f"-Xmx{heap}m", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
    file, _ = logging_of(spec.release)
    setting = "log4j.configuration=file:" if spec.release.log4j1 else "log4j2.configurationFile="
    return [*java, *speed, *safe, f"-D{setting}{home / file}", main_class(spec, node), str(home / "server.properties")]
