"""The status of mirrors, wired to their clusters."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.usecases.readers import StateReaders
from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext
from tanist.wiring.failover import both_clusters, source_of

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.wiring.registry import ClusterRegistry


def look(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName | None, context: CommandContext
) -> tuple[status.MirrorStatus, ...]:
    """One mirror, or all of a destination, with everything that `tanist status` asks.

    Raises:
        NoStateTopic, UnknownMirror, UnsafeStateTopic, and what the destination answers if it cannot be read.
    """

    def clusters(spec: MirrorSpec) -> FailoverContext:
        return both_clusters(registry, spec, source_of(registry, spec), destination, context)

    with closing(StateReaders(destination)) as readers:
        reading = StatusContext(
            readers=readers, silence=registry.silence(context.clock), clusters=clusters, context=context
        )
        return status.observe(reading, mirror)
