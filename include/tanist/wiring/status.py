"""Connects `tanist status` to the clusters of its mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
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
