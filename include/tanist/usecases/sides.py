"""A cluster as the use cases see it: its ports under one name, and the first contact with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from tanist.domain import records
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AnotherCluster, SameCluster, TanistError, UnknownMirror
from tanist.domain.problems import refuse
from tanist.domain.state_view import NOTHING_YET
from tanist.ports.clock import Deadline
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.access import Access
    from tanist.ports.approvals import Approvals
    from tanist.ports.clock import Clock
    from tanist.ports.configs import Configs
    from tanist.ports.fencing import Fencing
    from tanist.ports.logs import Logs
    from tanist.ports.opening import Opening
    from tanist.ports.positions import Positions
    from tanist.ports.replicas import Replicas
    from tanist.ports.sealing import ProducerFencing
    from tanist.ports.state import StateStore
    from tanist.ports.topics import Topics

FIRST_CONTACT_SECONDS: Final = 8.0
"""How long a cluster has to say who it is. A dead one is reported in this time, not after the whole deadline."""

_SAFE_REPLICAS: Final = 3


class OpenStore(Protocol):
    def __call__(self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False) -> StateStore:
        """A store over a state topic; with `mirror` one that may append to it, as that mirror's operator.

        Raises:
            UnsafeStateTopic: the topic could lose what we write. UnknownTopicOrPartition: it is not there, and is not
            to be made (`create`).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All that is asked of a cluster, source or destination, by who opened it and closes it.

    `name` is the connection's; `small_state` allows state topics of one replica. Used by one thread at a time.
    """

    name: str
    bootstrap: str
    topics: Topics
    configs: Configs
    logs: Logs
    replicas: Replicas
    access: Access
    fencing: Fencing
    sealing: ProducerFencing
    opening: Opening
    approvals: Approvals
    positions: Callable[[MirrorName], Positions]
    """The positions of groups, committed on behalf of a mirror."""
    open_store: OpenStore
    small_state: bool = False


def _tell_nobody(_topics: Sequence[str]) -> None:
    """For callers that have nobody to tell."""


def _not_known(_holder: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """One command while it runs: its time, and whether it may change anything.

    `announce` hears the matched topics once they are decided, before anything changes. `holder`: who we are to others
    that want to change the same mirror. `is_process_dead`: whether such a holder is certainly dead.
    """

    clock: Clock
    by: Deadline
    dry_run: bool = False
    announce: Callable[[Sequence[str]], None] = _tell_nobody
    holder: str = field(default_factory=lambda: f"command {uuid4().hex[:12]}")
    is_process_dead: Callable[[str], bool] = _not_known


def first_contact(context: CommandContext) -> Deadline:
    """The deadline of a first call: the command's own, but no later than a dead cluster should be reported."""
    return Deadline(min(context.by.at, context.clock.deadline(FIRST_CONTACT_SECONDS).at))


def identify(clusters: Sequence[Cluster], context: CommandContext) -> tuple[str, ...]:
    """The cluster id of each side.

    Raises:
        Problems, or the only one: every side that does not answer.
    """
    ids, problems = [], []
    for side in clusters:
        try:
            ids.append(side.topics.cluster_id(first_contact(context)))
        except TanistError as error:
            problems.append(error)
    if problems:
        refuse(problems)
    return tuple(ids)


def distinct(source: Cluster, destination: Cluster, context: CommandContext) -> tuple[str, str]:
    """The cluster ids of both sides.

    Raises:
        SameCluster: they are one.
    """
    source_id, destination_id = identify((source, destination), context)
    if source_id == destination_id:
        raise SameCluster(f"{source.name!r} and {destination.name!r} both lead to cluster {source_id}")
    return source_id, destination_id


def same_as_pinned(spec: MirrorSpec, source_id: str | None, destination_id: str) -> None:
    """Refuse where a connection leads to another cluster than when the mirror was created."""
    pairs = [(spec.source, spec.source_cluster_id, source_id or spec.source_cluster_id)]
    pairs.append((spec.destination, spec.destination_cluster_id, destination_id))
    for name, pinned, found in pairs:
        if pinned != found:
            raise AnotherCluster(f"{name!r} leads to cluster {found}, mirror {spec.mirror!r} was created with {pinned}")


# ── state topics ──────────────────────────────────────────────────────────────────────────────────────────────────


def missing_state_topics(cluster: Cluster, by: Deadline) -> tuple[NewTopic, ...]:
    """Those state topics that are not there yet, as a rehearsal can create them; whoever opens them knows the rest."""
    replicas = None if cluster.small_state else _SAFE_REPLICAS
    return tuple(
        NewTopic(name=name, partitions=count, replication_factor=replicas, configs={"cleanup.policy": "compact"})
        for name, count in ((records.STATE_TOPIC, records.STATE_PARTITIONS), (records.OFFSETS_TOPIC, 1))
        if not exists(cluster, name, by)
    )


def exists(cluster: Cluster, topic: str, by: Deadline) -> bool:
    """Whether there is such a topic; raises what the cluster answers otherwise."""
    facts = cluster.topics.describe([topic], by)[topic]
    if isinstance(facts, TanistError) and not isinstance(facts, UnknownTopicOrPartition):
        raise facts
    return isinstance(facts, TopicFacts)


def read(cluster: Cluster, topic: str, by: Deadline) -> StateView:
    """The view of a state topic as it is now; empty where the topic does not exist.

    Raises:
        UnsafeStateTopic: it could lose what we write.
    """
    if not exists(cluster, topic, by):
        return NOTHING_YET
    store = cluster.open_store(topic, None, by)
    try:
        return store.catch_up(by)
    finally:
        store.close()


def spec_of(view: StateView, mirror: MirrorName, destination: str) -> MirrorSpec:
    """The spec of `mirror`.

    Raises:
        UnknownMirror: naming those there are.
    """
    if found := view.mirror(mirror):
        return found
    names = ", ".join(spec.mirror for spec in view.mirrors()) or "none"
    raise UnknownMirror(f"{destination!r} has no mirror {mirror!r}; it has: {names}")


def still(view: StateView, examined: MirrorSpec) -> MirrorSpec:
    """The spec, as it is now, of the very mirror that was `examined` before.

    Raises:
        UnknownMirror: it was deleted meanwhile; another may have its name.
    """
    found = spec_of(view, examined.mirror, examined.destination)
    if (found.id, found.source) != (examined.id, examined.source):
        raise UnknownMirror(
            f"mirror {examined.mirror!r} was deleted in the meantime and re-created under the same name"
        )
    return found
