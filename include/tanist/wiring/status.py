"""Connects `tanist status` to the clusters of its mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases import next_steps
from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.next_steps.step import Guidance
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry


def look(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName | None, context: CommandContext
) -> tuple[status.MirrorStatus, ...]:
    """The status of one mirror, or of all mirrors of a destination (None).

    Raises:
        NoStateTopic, UnknownMirror, UnsafeStateTopic; CouldNotTell, BrokerError: the destination cannot be read.
    """
    reading = StatusContext(
        destination=destination,
        silence=registry.silence(context.clock),
        clusters=lambda spec: registry.mirror(spec, destination),
        context=context,
    )
    return status.observe(reading, mirror)


def advise(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName | None, context: CommandContext
) -> tuple[Guidance, ...]:
    """What to do next about one mirror, or about all mirrors of a destination (None); raises as `look`."""
    seen = look(registry, destination, mirror, context)
    return tuple(next_steps.advise(each.situation, registry.mirror(each.spec, destination), context) for each in seen)
