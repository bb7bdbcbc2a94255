"""Topics, logs and rights of one cluster in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import (
    InvalidPartitions,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import Unreachable
from tanist.domain.names import EpochMs, ProducerId, TopicPartition
from tanist.ports.access import Right, RightHeld, Verdict
from tanist.ports.logs import LogEnds
from tanist.ports.topics import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.write_rules import WriteRule
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import NewTopic


@dataclass
class MemoryCluster:
    """What the fakes of one cluster share. `denied`: (operation, resource) that our principal lacks."""

    id: str = "memory"
    brokers: int = 1
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    ends: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)
    denied: set[tuple[str, str]] = field(default_factory=set)
    dead: bool = False
    producer_ids: int = 1000

    def answer(self) -> None:
        if self.dead:
            raise Unreachable(f"{self.id}: connection refused")


class MemoryTopics:
    """The port `Topics`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def cluster_id(self, by: Deadline) -> str:
        self._cluster.answer()
        return self._cluster.id

    def names(self, by: Deadline) -> tuple[str, ...]:
        self._cluster.answer()
        return tuple(sorted(name for name in self._cluster.topics if not name.startswith("__")))

    def describe(self, names: Sequence[str], by: Deadline) -> Mapping[str, TopicFacts | TanistError]:
        self._cluster.answer()
        return {name: self._cluster.topics.get(name) or UnknownTopicOrPartition(name) for name in names}

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        self._cluster.answer()
        return {topic.name: self._create(topic, validate_only=validate_only) for topic in topics}

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        self._cluster.answer()
        facts = self._cluster.topics.get(topic)
        if facts is None:
            return UnknownTopicOrPartition(topic)
        if partitions <= facts.partitions:
            return InvalidPartitions(f"{topic} has {facts.partitions}")
        self._cluster.topics[topic] = replace(facts, partitions=partitions)
        self._cluster.ends |= {TopicPartition(topic, n): (0, 0, 0) for n in range(facts.partitions, partitions)}
        return None

    def alter_configs(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        self._cluster.answer()
        facts = self._cluster.topics.get(topic)
        if facts is None:
            return UnknownTopicOrPartition(topic)
        after = {**facts.configs, **changes}
        kept = {name: value for name, value in after.items() if value is not None}
        self._cluster.topics[topic] = replace(facts, configs=kept)
        return None

    def close(self) -> None:
        pass

    def _create(self, new: NewTopic, *, validate_only: bool) -> TanistError | None:
        replicas = new.replication_factor or 1
        if new.name in self._cluster.topics:
            return TopicAlreadyExists(new.name)
        if replicas > self._cluster.brokers:
            return InvalidReplicationFactor(new.name)
        if not validate_only:
            self._cluster.topics[new.name] = TopicFacts(
                name=new.name,
                topic_id=f"id-of-{new.name}",
                internal=False,
                partitions=new.partitions,
                replication_factor=replicas,
                configs=dict(new.configs),
            )
            self._cluster.ends |= {TopicPartition(new.name, n): (0, 0, 0) for n in range(new.partitions)}
        return None


class MemoryLogs:
    """The port `Logs`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]:
        self._cluster.answer()
        return {at: self._end(at) for at in partitions}

    def new_producer_id(self, by: Deadline) -> ProducerId:
        self._cluster.answer()
        self._cluster.producer_ids += 1
        return ProducerId(self._cluster.producer_ids)

    def close(self) -> None:
        pass

    def _end(self, at: TopicPartition) -> LogEnds | TanistError:
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        start, stable, high = self._cluster.ends[at]
        return LogEnds(start=start, last_stable=stable, high_watermark=high, observed_at=EpochMs(0))


class MemoryAccess:
    """The port `Access`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def check(self, rights: Sequence[Right], by: Deadline) -> tuple[RightHeld, ...]:
        self._cluster.answer()
        return tuple(self._held(right) for right in rights)

    def write_rules(self, topics: Sequence[str], by: Deadline) -> Mapping[str, tuple[WriteRule, ...] | None]:
        self._cluster.answer()
        return dict.fromkeys(topics, ())

    def close(self) -> None:
        pass

    def _held(self, right: Right) -> RightHeld:
        lacking = (right.operation, right.resource) in self._cluster.denied
        return RightHeld(right=right, verdict=Verdict.FAIL if lacking else Verdict.PASS)
