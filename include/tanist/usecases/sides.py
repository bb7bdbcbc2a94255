"""A cluster as the use cases see it: its ports under one name, and the first contact with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain import records
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AnotherCluster, SameCluster, TanistError, UnknownMirror, UnsafeStateTopic
from tanist.domain.problems import refuse
from tanist.ports.clock import Deadline
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec, StateView
    from tanist.ports.access import Access
    from tanist.ports.clock import Clock
    from tanist.ports.configs import Configs
    from tanist.ports.logs import Logs
    from tanist.ports.state import StateStore
    from tanist.ports.topics import Topics

FIRST_CONTACT_SECONDS: Final = 8.0
"""How long a cluster has to say who it is. A dead one is reported in this time, not after the whole deadline."""

_SAFE_REPLICAS: Final = 3
_SAFE_MIN_ISR: Final = 2


class OpenStore(Protocol):
    def __call__(self, topic: str, mirror: MirrorName | None, by: Deadline) -> StateStore:
        """A store over an existing state topic; with `mirror` one that may append to it, as that mirror's operator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Source or destination. `name` is the connection's; `small_state` allows state topics of one replica."""

    name: str
    bootstrap: str
    topics: Topics
    configs: Configs
    logs: Logs
    access: Access
    open_store: OpenStore
    small_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One command while it runs: its time, and whether it may change anything."""

    clock: Clock
    by: Deadline
    dry_run: bool = False


def first_contact(run: Run) -> Deadline:
    """The deadline of a first call: the command's own, but no later than a dead cluster should be reported."""
    return Deadline(min(run.by.at, run.clock.deadline(FIRST_CONTACT_SECONDS).at))


def identify(sides: Sequence[Side], run: Run) -> tuple[str, ...]:
    """The cluster id of each side.

    Raises:
        Problems, or the only one: every side that does not answer.
    """
    ids, problems = [], []
    for side in sides:
        try:
            ids.append(side.topics.cluster_id(first_contact(run)))
        except TanistError as error:
            problems.append(error)
    if problems:
        refuse(problems)
    return tuple(ids)


def distinct(source: Side, destination: Side, run: Run) -> tuple[str, str]:
    """The cluster ids of both sides.

    Raises:
        SameCluster: they are one.
    """
    source_id, destination_id = identify((source, destination), run)
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


def state_topics(side: Side) -> tuple[NewTopic, ...]:
    """What both state topics are created as."""
    replicas = None if side.small_state else _SAFE_REPLICAS
    configs = {"cleanup.policy": "compact"}
    if not side.small_state:
        configs |= {"min.insync.replicas": str(_SAFE_MIN_ISR), "unclean.leader.election.enable": "false"}
    return tuple(
        NewTopic(name=name, partitions=partitions, replication_factor=replicas, configs=configs)
        for name, partitions in ((records.STATE_TOPIC, records.SLICES), (records.OFFSETS_TOPIC, 1))
    )


def unsafe(facts: TopicFacts, *, partitions: int, small_state: bool) -> str | None:
    """Why a state topic cannot be trusted with our only database; None: it can."""
    if facts.configs.get("cleanup.policy") != "compact":
        return f"{facts.name} has cleanup.policy={facts.configs.get('cleanup.policy', 'delete')}, not compact"
    if facts.partitions != partitions:
        return f"{facts.name} has {facts.partitions} partitions, not {partitions}"
    if small_state:
        return None
    if facts.replication_factor < _SAFE_REPLICAS:
        return f"{facts.name} has {facts.replication_factor} replica(s), {_SAFE_REPLICAS} are needed"
    if int(facts.configs.get("min.insync.replicas", "1")) < _SAFE_MIN_ISR:
        return f"{facts.name} has min.insync.replicas below {_SAFE_MIN_ISR}"
    return None


def missing_state_topics(side: Side, by: Deadline) -> tuple[NewTopic, ...]:
    """Those state topics that are not there yet.

    Raises:
        UnsafeStateTopic: one is there that could lose what we write.
    """
    wanted = state_topics(side)
    found = side.topics.describe([topic.name for topic in wanted], by)
    missing = []
    for topic in wanted:
        facts = found[topic.name]
        if isinstance(facts, UnknownTopicOrPartition):
            missing.append(topic)
        elif isinstance(facts, TanistError):
            raise facts
        elif why := unsafe(facts, partitions=topic.partitions, small_state=side.small_state):
            raise UnsafeStateTopic(f"on {side.name!r}, {why}")
    return tuple(missing)


def exists(side: Side, topic: str, by: Deadline) -> bool:
    """Whether there is such a topic; raises what the cluster answers otherwise."""
    facts = side.topics.describe([topic], by)[topic]
    if isinstance(facts, TanistError) and not isinstance(facts, UnknownTopicOrPartition):
        raise facts
    return isinstance(facts, TopicFacts)


def read(side: Side, topic: str, by: Deadline) -> StateView:
    """The view of a state topic as it is now; empty where the topic does not exist."""
    if not exists(side, topic, by):
        return records.NOTHING_YET
    store = side.open_store(topic, None, by)
    try:
        return store.catch_up(by)
    finally:
        store.close()


def spec_of(view: StateView, mirror: MirrorName, destination: str) -> MirrorSpec:
    """The spec of `mirror`.

    Raises:
        UnknownMirror: naming those there are.
    """
    found = view.get(f"mirror/{mirror}")
    if isinstance(found, records.MirrorSpec):
        return found
    names = ", ".join(spec.mirror for spec in records.specs(view)) or "none"
    raise UnknownMirror(f"{destination!r} has no mirror {mirror!r}; it has: {names}")
