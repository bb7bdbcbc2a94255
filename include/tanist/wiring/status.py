"""The status of mirrors, wired to their clusters."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.usecases.readers import StateReaders
from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext
from tanist.wiring.failover import both_clusters, destination_ports, source_ports

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.usecases.failover.clusters import Destination, FailoverContext, Source
    from tanist.usecases.sides import Cluster, CommandContext
    from tanist.wiring.world import ClusterRegistry


def look(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName | None, context: CommandContext
) -> tuple[status.MirrorStatus, ...]:
    """One mirror, or all of a destination, with everything that `tanist status` asks.

    Raises:
        NoStateTopic, UnknownMirror, UnsafeStateTopic, and what the destination answers if it cannot be read.
    """
    with ExitStack() as stack:
        readers = stack.enter_context(closing(StateReaders(destination)))
        ports = _Ports(registry, destination, context, stack)
        reading = StatusContext(
            readers=readers, silence=registry.silence(context.clock), clusters=ports.of, context=context
        )
        return status.observe(reading, mirror)


@dataclass(slots=True)
class _Ports:
    """Each cluster is opened once, however many mirrors it has."""

    registry: ClusterRegistry
    destination: Cluster
    context: CommandContext
    stack: ExitStack
    _there: Destination | None = None
    _sources: dict[str, Source | TanistError] = field(default_factory=dict)

    def of(self, spec: MirrorSpec) -> FailoverContext:
        if self._there is None:
            self._there = destination_ports(self.registry, self.destination, spec)
            self.stack.callback(self._there.close)
        if spec.source not in self._sources:
            self._sources[spec.source] = source = source_ports(self.registry, spec)
            if not isinstance(source, TanistError):
                self.stack.callback(source.close)
        return both_clusters(self.registry, spec, self._sources[spec.source], self._there, self.context)
