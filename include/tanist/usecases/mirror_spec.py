"""The spec of a mirror, found at its destination by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.records import STATE_TOPIC
from tanist.usecases import cluster_ids, state_topics

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext


def spec_at(destination: Cluster, mirror: MirrorName, context: CommandContext) -> MirrorSpec:
    """The spec of `mirror`; what answers as its destination is the cluster that it was created with.

    Raises:
        MirrorMoved, UnknownMirror: the destination has no such mirror (any more). AnotherCluster: it is another one.
        UnsafeStateTopic, CouldNotTell, BrokerError: its state cannot be read.
    """
    (found,) = cluster_ids.identify((destination,), context)
    spec = state_topics.spec_of(destination.state(STATE_TOPIC, context.by), mirror, destination.name)
    cluster_ids.same_as_pinned(spec, None, found)
    return spec
