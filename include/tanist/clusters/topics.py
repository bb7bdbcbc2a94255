"""Topics, partitions and their configurations, through librdkafka."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.cimpl import NewPartitions
from confluent_kafka.cimpl import NewTopic as KafkaNewTopic

from tanist.clusters.admin import Admin
from tanist.clusters.librdkafka import Doing, cause, translate
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, CouldNotTell, TanistError
from tanist.ports.topics import TopicFacts
from tanist.wire.identity import cluster_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka.admin._cluster import DescribeClusterResult
    from confluent_kafka.admin._topic import TopicDescription

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import NewTopic

_SET, _DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
_SETTLING: Final = 0.05
"""Seconds between looks at a topic that has just been created."""
_MOST_RECORDS: Final = 4_000
"""Of one CreateTopics: a 4.3.1 controller refuses what becomes more than 10,000 records of its log (one for each topic
and partition, more than one for each configuration: 1,500 topics with four are too many)."""


class KafkaTopics:
    """The port `Topics` over librdkafka. Thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._admin = Admin(endpoint, "topics")

    def cluster_id(self, by: Deadline) -> str:
        return cluster_id(self._endpoint, "tanist-topics", by)

    def brokers(self, by: Deadline) -> tuple[int, ...]:
        """Ids of the brokers that are up, sorted."""
        return tuple(sorted(node.id for node in self._cluster(by).nodes))

    def names(self, by: Deadline) -> tuple[str, ...]:
        doing = Doing("list topics", "DESCRIBE on topics")
        found = self._admin.blocking(lambda client, left: client.list_topics(timeout=left), by, doing)
        return tuple(sorted(name for name in found.topics if not name.startswith("__")))

    def describe(self, names: Sequence[str], by: Deadline) -> Mapping[str, TopicFacts | TanistError]:
        found = self._descriptions(names, by)
        there = [name for name, description in found.items() if not isinstance(description, TanistError)]
        configs = self._configs(there, by)
        return {name: _facts(found[name], configs.get(name)) for name in names}

    def partitions(self, names: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        found = self._descriptions(names, by)
        return {name: each if isinstance(each, TanistError) else len(each.partitions) for name, each in found.items()}

    def effective_configs(self, name: str, by: Deadline) -> Mapping[str, str]:
        """Every configuration of a topic as it works, wherever it comes from.

        Raises:
            AuthorizationFailed, UnknownTopicOrPartition, TimedOut, Unreachable: as they say.
        """
        entries = self._configs([name], by)[name]
        if isinstance(entries, TanistError):
            raise entries
        return {entry.name: entry.value for entry in entries.values() if entry.value is not None}

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        answers: dict[str, TanistError | None] = {}
        for chunk in _chunks(topics):
            answers |= self._create(chunk, by, validate_only=validate_only)
        if not validate_only:
            created = {topic.name: topic.partitions for topic in topics if answers[topic.name] is None}
            answers |= self._settle(created, by)
        return answers

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        doing = Doing(f"add partitions to topic {topic}", f"ALTER on topic {topic}")
        (outcome,) = self._admin.calls(
            lambda client, left: client.create_partitions([NewPartitions(topic, partitions)], request_timeout=left),
            by,
            doing,
        ).values()
        return self._refusal(outcome, doing) or self._settle({topic: partitions}, by)[topic]

    def alter_configs(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        if not changes:
            return None
        entries = [
            ConfigEntry(name, value, incremental_operation=_DELETE if value is None else _SET)
            for name, value in changes.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        doing = Doing(f"alter topic {topic}", f"ALTER_CONFIGS on topic {topic}")
        (outcome,) = self._admin.calls(
            lambda client, left: client.incremental_alter_configs([resource], request_timeout=left), by, doing
        ).values()
        return self._refusal(outcome, doing)

    def close(self) -> None:
        self._admin.close()

    def _create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool
    ) -> dict[str, TanistError | None]:
        asked = [_new_topic(topic) for topic in topics]
        found = self._admin.calls(
            lambda client, left: client.create_topics(asked, request_timeout=left, validate_only=validate_only),
            by,
            Doing("create topics", "CREATE"),
        )
        return {name: self._refusal(outcome, _creating(name)) for name, outcome in found.items()}

    # ── what librdkafka says ──────────────────────────────────────────────────────────────────────────────────────

    def _cluster(self, by: Deadline) -> DescribeClusterResult:
        doing = Doing("describe the cluster", "DESCRIBE on the cluster")
        found: DescribeClusterResult = self._admin.call(
            lambda client, left: client.describe_cluster(request_timeout=left), by, doing
        )
        return found

    def _descriptions(self, names: Sequence[str], by: Deadline) -> dict[str, TopicDescription | TanistError]:
        if not names:
            return {}
        found = self._admin.calls(
            lambda client, left: client.describe_topics(TopicCollection(list(names)), request_timeout=left),
            by,
            Doing("describe topics", "DESCRIBE"),
        )
        return {name: self._told(outcome, _describing(name)) for name, outcome in found.items()}

    def _configs(self, names: Sequence[str], by: Deadline) -> dict[str, dict[str, ConfigEntry] | TanistError]:
        if not names:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        found = self._admin.calls(
            lambda client, left: client.describe_configs(resources, request_timeout=left),
            by,
            Doing("describe configurations", "DESCRIBE_CONFIGS"),
        )
        return {resource.name: self._told(o, _reading_configs(resource.name)) for resource, o in found.items()}

    def _told(self, outcome: Any, doing: Doing) -> Any:
        return self._refusal(outcome, doing) or outcome

    def _refusal(self, outcome: object, doing: Doing) -> TanistError | None:
        if isinstance(outcome, KafkaException):
            return translate(cause(outcome), doing, self._endpoint)
        return None

    # ── a topic is not ready everywhere when CreateTopics returns ─────────────────────────────────────────────────

    def _settle(self, created: Mapping[str, int], by: Deadline) -> dict[str, TanistError | None]:
        pause = threading.Event()
        while unsettled := self._unsettled(created, by):
            if by.left(time.monotonic()) <= _SETTLING:
                return {name: unsettled.get(name) for name in created}
            pause.wait(_SETTLING)
        return dict.fromkeys(created, None)

    def _unsettled(self, created: Mapping[str, int], by: Deadline) -> dict[str, TanistError]:
        """Topics without all their leaders, or that some broker does not know yet, and what is missing."""
        waiting: dict[str, TanistError] = {}
        for name, description in self._descriptions(list(created), by).items():
            if isinstance(description, TanistError):
                waiting[name] = description
            elif leaderless := created[name] - sum(p.leader is not None for p in description.partitions):
                waiting[name] = CouldNotTell(f"{leaderless} new partition(s) of topic {name} have no leader yet")
        if created and not waiting:
            for broker in self.brokers(by):
                waiting |= self._unknown_to(broker, created, by)
        return waiting

    def _unknown_to(self, broker: int, names: Mapping[str, int], by: Deadline) -> dict[str, TanistError]:
        """Asking one broker for a configuration tells what that broker knows; brokers answer metadata for others."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        found = self._admin.calls(
            lambda client, left: client.describe_configs(resources, request_timeout=left, broker=broker),
            by,
            Doing(f"ask broker {broker} about new topics", "DESCRIBE_CONFIGS"),
        )
        told = {resource.name: self._refusal(o, _reading_configs(resource.name)) for resource, o in found.items()}
        # Without DESCRIBE_CONFIGS a broker refuses what it knows; it does not tell of what it does not know.
        return {name: error for name, error in told.items() if error and not isinstance(error, AuthorizationFailed)}


def _chunks(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    """`topics` in requests that a controller takes; a topic that is too large by itself goes alone."""
    chunk: list[NewTopic] = []
    records = 0
    for topic in topics:
        own = 1 + topic.partitions + len(topic.configs)
        if chunk and records + own > _MOST_RECORDS:
            yield chunk
            chunk, records = [], 0
        chunk.append(topic)
        records += own
    if chunk:
        yield chunk


def _creating(name: str) -> Doing:
    return Doing(f"create topic {name}", f"CREATE on topic {name} or on the cluster")


def _describing(name: str) -> Doing:
    return Doing(f"describe topic {name}", f"DESCRIBE on topic {name}")


def _reading_configs(name: str) -> Doing:
    return Doing(f"describe the configuration of topic {name}", f"DESCRIBE_CONFIGS on topic {name}")


def _new_topic(topic: NewTopic) -> KafkaNewTopic:
    replicas = -1 if topic.replication_factor is None else topic.replication_factor
    return KafkaNewTopic(topic.name, topic.partitions, replicas, config=dict(topic.configs))


def _facts(
    description: TopicDescription | TanistError, configs: Mapping[str, ConfigEntry] | TanistError | None
) -> TopicFacts | TanistError:
    if isinstance(description, TanistError):
        return description
    if configs is None or isinstance(configs, TanistError):
        return configs or UnknownTopicOrPartition(f"topic {description.name} has just gone")
    return TopicFacts(
        name=description.name,
        topic_id=str(description.topic_id).replace("+", "-").replace("/", "_"),  # as Kafka prints it, not librdkafka
        internal=description.is_internal,
        partitions=len(description.partitions),
        replication_factor=len(description.partitions[0].replicas),
        configs={e.name: e.value for e in configs.values() if e.value is not None and _is_own(e)},
        effective={e.name: e.value for e in configs.values() if e.value is not None},
    )


def _is_own(entry: ConfigEntry) -> bool:
    """Whether it was set on the topic itself. `is_default` would be true only where the broker sets nothing either."""
    return ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG  # it comes as a bare number
