"""A cluster in memory, behind the ports that use cases see. It refuses what a broker would refuse."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import (
    InvalidReplicationFactor,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import OperatorFenced, TanistError, Unreachable
from tanist.domain.names import EpochMs, MirrorName, ProducerId, TopicPartition
from tanist.domain.records import NOTHING_YET, StateRecord, StateView, fold
from tanist.domain.write_rules import WriteRule, learnt
from tanist.ports.access import Right, RightHeld, Verdict
from tanist.ports.clock import Deadline
from tanist.ports.logs import LogEnds
from tanist.ports.topics import NewTopic, TopicFacts
from tanist.usecases.sides import Run, Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


@dataclass
class FakeClock:
    """Time that passes only while somebody waits."""

    seconds: float = 1_000.0

    def now(self) -> EpochMs:
        return EpochMs(int(self.seconds * 1000))

    def monotonic(self) -> float:
        return self.seconds

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(self.seconds + seconds)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class FakeCluster:
    """One cluster; `calls` records what changed it, `missing` are (operation, resource) that we may not do."""

    name: str
    brokers: int = 3
    topics: dict[str, TopicFacts] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    views: dict[str, StateView] = field(default_factory=dict)
    missing: set[tuple[str, str]] = field(default_factory=set)
    rules: dict[str, tuple[WriteRule, ...]] = field(default_factory=dict)
    dead: bool = False
    calls: list[str] = field(default_factory=list)
    broker_configs: dict[str, str] = field(default_factory=dict)
    next_id: int = 1000
    operators: dict[str, int] = field(default_factory=dict)
    cluster: str = ""

    def with_topic(self, name: str, partitions: int = 1, end: int = 0, **configs: str) -> FakeCluster:
        """A topic whose every partition ends at `end`; configs with '_' for '.'."""
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics[name] = TopicFacts(
            name=name,
            topic_id=f"id-{name}",
            internal=False,
            partitions=partitions,
            replication_factor=min(3, self.brokers),
            configs=given,
        )
        self.ends |= {TopicPartition(name, n): end for n in range(partitions)}
        return self

    def side(self) -> Side:
        return Side(
            name=self.name,
            bootstrap=f"{self.name}:9092",
            topics=FakeTopics(self),
            configs=FakeConfigs(self),
            logs=FakeLogs(self),
            access=FakeAccess(self),
            open_store=self.open_store,
            small_state=self.brokers < 3,
        )

    def open_store(self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False) -> FakeStore:
        self.answer()
        if topic not in self.topics:
            if not create:
                raise UnknownTopicOrPartition(topic)
            self.calls.append(f"create {topic}")
            self.with_topic(topic)
        if mirror:
            self.operators[mirror] = self.operators.get(mirror, 0) + 1
        return FakeStore(self, topic, mirror, self.operators.get(mirror or "", 0))

    def die(self) -> bool:
        self.dead = True
        return False

    def answer(self) -> None:
        if self.dead:
            raise Unreachable(f"{self.name}:9092: connection refused")

    def may(self, operation: str, resource: str) -> TanistError | None:
        if (operation, resource) in self.missing:
            return TopicAuthorizationFailed(f"{operation} {resource}")
        return None


@dataclass
class FakeStore:
    cluster: FakeCluster
    topic: str
    mirror: MirrorName | None
    epoch: int

    def view(self) -> StateView:
        return self.cluster.views.get(self.topic, NOTHING_YET)

    def ended(self) -> None:
        return None

    def catch_up(self, by: Deadline) -> StateView:
        self.cluster.answer()
        return self.view()

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        assert self.mirror, "opened for reading"
        if self.epoch < self.cluster.operators[self.mirror]:
            raise OperatorFenced(self.topic)
        self.cluster.calls.append(f"append {', '.join(record.key for record in records)}")
        self.cluster.views[self.topic] = fold(self.view(), records)
        return self.view()

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        return iter(self.view().values())

    def close(self) -> None:
        pass


@dataclass
class FakeTopics:
    cluster: FakeCluster

    def cluster_id(self, by: Deadline) -> str:
        self.cluster.answer()
        return self.cluster.cluster or f"cluster-{self.cluster.name}"

    def names(self, by: Deadline) -> tuple[str, ...]:
        self.cluster.answer()
        return tuple(sorted(n for n in self.cluster.topics if not n.startswith("__")))

    def describe(self, names: Sequence[str], by: Deadline) -> Mapping[str, TopicFacts | TanistError]:
        self.cluster.answer()
        return {
            name: self.cluster.may("DESCRIBE", name) or self._facts(name) or UnknownTopicOrPartition(name)
            for name in names
        }

    def _facts(self, name: str) -> TopicFacts | None:
        found = self.cluster.topics.get(name)
        return found and replace(found, effective=DEFAULTS | dict(found.configs))

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        self.cluster.answer()
        return {topic.name: self._create(topic, validate_only=validate_only) for topic in topics}

    def _create(self, topic: NewTopic, *, validate_only: bool) -> TanistError | None:
        if error := self.cluster.may("CREATE", topic.name):
            return error
        if topic.name in self.cluster.topics:
            return TopicAlreadyExists(topic.name)
        if (topic.replication_factor or 1) > self.cluster.brokers:
            return InvalidReplicationFactor(f"{topic.replication_factor} > {self.cluster.brokers} brokers")
        if not validate_only:
            self.cluster.calls.append(f"create {topic.name}")
            self.cluster.with_topic(topic.name, topic.partitions)
            facts = self.cluster.topics[topic.name]
            self.cluster.topics[topic.name] = replace(facts, configs=dict(topic.configs))
        return None

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        if error := self.cluster.may("ALTER", topic):
            return error
        self.cluster.calls.append(f"grow {topic}")
        facts = self.cluster.topics[topic]
        self.cluster.topics[topic] = replace(facts, partitions=partitions)
        self.cluster.ends |= {TopicPartition(topic, n): 0 for n in range(facts.partitions, partitions)}
        return None

    def alter_configs(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        self.cluster.calls.append(f"alter {topic}")
        facts = self.cluster.topics[topic]
        merged = {**facts.configs, **changes}
        self.cluster.topics[topic] = replace(facts, configs={k: v for k, v in merged.items() if v is not None})
        return None

    def close(self) -> None:
        pass


@dataclass
class FakeConfigs:
    cluster: FakeCluster

    def broker(self, by: Deadline) -> Mapping[str, str]:
        return self.cluster.broker_configs

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        if error := self.cluster.may("ALTER_CONFIGS", "kafka-cluster"):
            return error
        self.cluster.calls.append(f"set {name}")
        self.cluster.broker_configs[name] = value
        return None

    def close(self) -> None:
        pass


@dataclass
class FakeLogs:
    cluster: FakeCluster

    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]:
        self.cluster.answer()
        return {p: self._end(p) for p in partitions}

    def _end(self, partition: TopicPartition) -> LogEnds | TanistError:
        if partition not in self.cluster.ends:
            return UnknownTopicOrPartition(str(partition))
        end = self.cluster.ends[partition]
        return LogEnds(start=0, last_stable=end, high_watermark=end, observed_at=EpochMs(7))

    def new_producer_id(self, by: Deadline) -> ProducerId:
        self.cluster.calls.append("producer id")
        self.cluster.next_id += 1
        return ProducerId(self.cluster.next_id)

    def close(self) -> None:
        pass


@dataclass
class FakeAccess:
    cluster: FakeCluster

    def check(self, rights: Sequence[Right], by: Deadline) -> tuple[RightHeld, ...]:
        self.cluster.answer()
        return tuple(RightHeld(right=right, verdict=self._verdict(right)) for right in rights)

    def _verdict(self, right: Right) -> Verdict:
        return Verdict.FAIL if (right.operation, right.resource) in self.cluster.missing else Verdict.PASS

    def write_rules(self, topics: Sequence[str], by: Deadline) -> Mapping[str, tuple[WriteRule, ...] | None]:
        self.cluster.answer()
        if error := self.cluster.may("DESCRIBE", "kafka-cluster"):
            raise error
        return {topic: learnt(self.cluster.rules.get(topic, ())) for topic in topics}

    def close(self) -> None:
        pass


def a_run(clock: FakeClock | None = None, *, dry_run: bool = False) -> Run:
    clock = clock or FakeClock()
    return Run(clock=clock, by=clock.deadline(30), dry_run=dry_run)
