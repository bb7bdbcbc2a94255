"""How Java is called to run one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist_testkit.sandbox.properties import Layout
    from tanist_testkit.sandbox.spec import ClusterSpec

SHORT_RUN: Final = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a Java run where starting is most of the work."""


def node_command(java: Sequence[str], spec: ClusterSpec, layout: Layout, node: int) -> list[str]:
    """`java`: Java with its class path."""
    heap, home = spec.heap_of(node), layout.node(node)
    fast = spec.full_speed and node in spec.broker_ids
    speed = ("-Xshare:auto", "-XX:+UseG1GC", f"-Xms{heap}m") if fast else SHORT_RUN
    safe = (f"-Xmx{heap}m", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
    log4j = f"-Dlog4j2.configurationFile={home / 'log4j2.yaml'}"
    return [*java, *speed, *safe, log4j, "kafka.Kafka", str(home / "server.properties")]
