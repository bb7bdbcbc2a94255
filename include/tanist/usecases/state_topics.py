"""The state topics of a cluster, and the specs in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain import records
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError, UnknownMirror
from tanist.domain.moves import MirrorMoved
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

_SAFE_REPLICAS: Final = 3


def missing_state_topics(cluster: Cluster, by: Deadline) -> tuple[NewTopic, ...]:
    """The state topics that do not exist yet, as specs for a rehearsal; opening them creates them completely."""
    replicas = None if cluster.small_state else _SAFE_REPLICAS
    return tuple(
        NewTopic(name=name, partitions=count, replication_factor=replicas, configs={"cleanup.policy": "compact"})
        for name, count in ((records.STATE_TOPIC, records.STATE_PARTITIONS), (records.OFFSETS_TOPIC, 1))
        if not exists(cluster, name, by)
    )


def exists(cluster: Cluster, topic: str, by: Deadline) -> bool:
    """Whether the topic exists. Raises any other error of the cluster."""
    facts = cluster.topics.describe([topic], by)[topic]
    if isinstance(facts, TanistError) and not isinstance(facts, UnknownTopicOrPartition):
        raise facts
    return isinstance(facts, TopicFacts)


def spec_of(view: StateView, mirror: MirrorName, destination: str) -> MirrorSpec:
    """The spec of `mirror`.

    Raises:
        MirrorMoved: it has another destination now. UnknownMirror: with the names of existing mirrors.
    """
    if found := view.mirror(mirror):
        return found
    if moved := view.move(mirror):
        raise MirrorMoved(moved, destination)
    names = ", ".join(spec.mirror for spec in view.mirrors()) or "none"
    raise UnknownMirror(f"{destination!r} has no mirror {mirror!r}; it has: {names}")


def still(view: StateView, examined: MirrorSpec) -> MirrorSpec:
    """The current spec of the mirror that was `examined` before.

    Raises:
        UnknownMirror: it was deleted meanwhile; another mirror may have its name.
    """
    found = spec_of(view, examined.mirror, examined.destination)
    if (found.id, found.source) != (examined.id, examined.source):
        raise UnknownMirror(
            f"mirror {examined.mirror!r} was deleted in the meantime and re-created under the same name"
        )
    return found
