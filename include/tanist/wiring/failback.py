"""Connects the use cases of the way back to both clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.circle import locate
from tanist.domain.records import STATE_TOPIC
from tanist.usecases import state_topics
from tanist.usecases.failback.survey import ReturnContext
from tanist.usecases.mirror_spec import spec_at
from tanist.wiring.registry import side_of

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry


def returned(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName, context: CommandContext
) -> ReturnContext:
    """Both clusters of a mirror; what answers under the source's name must be the cluster that the mirror pins.

    Raises:
        UnknownMirror: the destination has no such mirror. AnotherCluster: it is not the mirror's destination.
        Misconfigured: the source is not configured here. CouldNotTell, BrokerError: the destination does not answer.
    """
    spec = spec_at(destination, mirror, context)
    source, there = registry.open(spec.source, spec.source_cluster_id), registry.open(destination.name)
    return ReturnContext(
        spec=spec,
        source=side_of(source),
        destination=destination,
        tails=source.divergent_tails(there),
        quarantine=source.quarantine(there),
        replays=there.replays(),
        transactions=source.open_transactions(),
        deletion=source.topic_deletion(),
        sizes=there.log_sizes(),
        from_source=lambda: returned(registry, side_of(source), mirror, context),
    )


def moved_to(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName, context: CommandContext
) -> Cluster | None:
    """The cluster that a mirror has moved to from `destination`; None: it has not moved.

    Raises:
        Misconfigured: that cluster is not configured here.
    """
    move = locate(mirror, state_topics.read(destination, STATE_TOPIC, context.by)).forwarding
    return None if move is None else registry.connect(move.destination)
