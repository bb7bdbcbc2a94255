"""Connects the use cases of the way back to both clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.records import STATE_TOPIC
from tanist.usecases import cluster_ids, state_topics
from tanist.usecases.failback.survey import ReturnContext
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
    (found,) = cluster_ids.identify((destination,), context)
    spec = state_topics.spec_of(state_topics.read(destination, STATE_TOPIC, context.by), mirror, destination.name)
    cluster_ids.same_as_pinned(spec, None, found)
    source, there = registry.open(spec.source, spec.source_cluster_id), registry.open(destination.name)
    return ReturnContext(
        spec=spec, source=side_of(source), destination=destination, tails=source.divergent_tails(there)
    )
