"""Topics in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import (
    InvalidPartitions,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import AuthorizationFailed, TimedOut
from tanist.domain.names import BrokerId, MirrorPartition
from tanist.domain.topic_configs import MIN_ISR
from tanist.ports.topics import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import NewTopic
    from tests.fakes.cluster import MemoryCluster

DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "segment.bytes": "1073741824",
}


class MemoryTopics:
    """The port `Topics`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster

    def cluster_id(self, by: Deadline) -> str:
        self.cluster.answer()
        return self.cluster.id

    def names(self, by: Deadline) -> tuple[str, ...]:
        self.cluster.answer()
        seen = (name for name in self.cluster.topics if self.cluster.may("DESCRIBE", name))
        return tuple(sorted(name for name in seen if not name.startswith("__")))

    def describe(
        self, names: Sequence[str], by: Deadline, configs: Collection[str] | None = None
    ) -> Mapping[str, TopicFacts | TanistError]:
        self.cluster.answer()
        found = {name: self._described(name) for name in names}
        return found if configs is None else {name: _only(configs, each) for name, each in found.items()}

    def partitions(self, names: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        found = {name: self._found(name, "DESCRIBE") for name in names}
        return {name: each.partitions if isinstance(each, TopicFacts) else each for name, each in found.items()}

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        self.cluster.answer()
        return {topic.name: self._create(topic, validate_only=validate_only) for topic in topics}

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        found = self._found(topic, "ALTER")
        if not isinstance(found, TopicFacts):
            return found
        if partitions <= found.partitions:
            return InvalidPartitions(f"{topic} has {found.partitions}")
        self.cluster.calls.append(f"grow {topic}")
        self.cluster.topics[topic] = replace(found, partitions=partitions)
        self.cluster.ends |= {MirrorPartition(topic, n): (0, 0, 0) for n in range(found.partitions, partitions)}
        return None

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], by: Deadline
    ) -> dict[str, TanistError | None]:
        return {topic: self._alter(topic, some, by) if some else None for topic, some in changes.items()}

    def _alter(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        if not by.left(self.cluster.clock.monotonic()):
            raise TimedOut(f"altering {topic}: not sent")
        found = self._found(topic, "ALTER_CONFIGS")
        if not isinstance(found, TopicFacts):
            return found
        self.cluster.calls.append(f"alter {topic}")
        after = {**found.configs, **changes}
        kept = {name: value for name, value in after.items() if value is not None}
        self.cluster.topics[topic] = replace(found, configs=kept)
        return None

    def _found(self, name: str, operation: str) -> TopicFacts | TanistError:
        self.cluster.answer()
        if not self.cluster.may(operation, name):
            return AuthorizationFailed(f"needs {operation} on topic {name}")
        return self.cluster.topics.get(name) or UnknownTopicOrPartition(name)

    def _described(self, name: str) -> TopicFacts | TanistError:
        found = self._found(name, "DESCRIBE")
        if not isinstance(found, TopicFacts):
            return found
        if not self.cluster.may("DESCRIBE_CONFIGS", name):
            return AuthorizationFailed(f"needs DESCRIBE_CONFIGS on topic {name}")
        numbers = range(found.partitions)
        return replace(
            found,
            effective=DEFAULTS | {MIN_ISR: str(self.cluster.min_isr)} | dict(found.configs),
            leaders=tuple(BrokerId(1) for _ in numbers),
            in_sync=tuple(self.cluster.isr.get(MirrorPartition(name, n), 1) for n in numbers),
        )

    def _create(self, new: NewTopic, *, validate_only: bool) -> TanistError | None:
        if not self.cluster.may("CREATE", new.name) and not self.cluster.may("CREATE", "kafka-cluster"):
            return AuthorizationFailed(f"needs CREATE on topic {new.name}")
        if new.name in self.cluster.topics:
            return TopicAlreadyExists(new.name)
        if (new.replication_factor or 1) > self.cluster.brokers:
            return InvalidReplicationFactor(f"{new.replication_factor} > {self.cluster.brokers} brokers")
        if not validate_only:
            self.cluster.calls.append(f"create {new.name}")
            self.cluster.put(new)
        return None


def _only(names: Collection[str], facts: TopicFacts | TanistError) -> TopicFacts | TanistError:
    """`facts` with the configs of these `names`, as brokers tell them of a topic."""
    if not isinstance(facts, TopicFacts):
        return facts
    kept = [{name: each[name] for name in names if name in each} for each in (facts.configs, facts.effective)]
    return replace(facts, configs=kept[0], effective=kept[1])
