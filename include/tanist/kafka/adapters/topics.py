"""Topics, their partitions, configurations and sizes: the ports `Topics`, `Configs`, `TopicDeletion` and `LogSizes`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import UnknownTopicId, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.domain.names import TopicPartition, topic_id_text
from tanist.kafka.adapters.librdkafka import Asking, Operation
from tanist.kafka.wire.admin import (
    TOPIC_ITSELF,
    ConfigKind,
    ConfigResource,
    ConfigValue,
    alter_configs,
    alter_topic_configs,
    describe_configs,
    topic_configs,
)
from tanist.kafka.wire.identity import identify
from tanist.kafka.wire.requests import End, list_offsets
from tanist.kafka.wire.router import TopicInfo, describe_topics, share
from tanist.kafka.wire.topics import create_partitions, create_topics, delete_topic, log_sizes
from tanist.ports.topics import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.names import BrokerId
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import NewTopic


_ALL_BROKERS: Final = ConfigResource(ConfigKind.BROKER, "")
"""Cluster-wide dynamic configs (KIP-226)."""


class KafkaConfigs:
    """The port `Configs` over `tanist.kafka.wire`. Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def broker(self, by: Deadline) -> Mapping[str, str]:
        self._router.refresh([], by)
        one = ConfigResource(ConfigKind.BROKER, str(min(self._router.brokers)))
        return _values(describe_configs(self._router, one, None, by))

    def each_broker(
        self, names: Collection[str], by: Deadline
    ) -> Mapping[BrokerId, Mapping[str, str | None] | TanistError]:
        self._router.refresh([], by)
        brokers = sorted(self._router.brokers)
        return {
            broker: self._of_broker(broker, names, share(by, len(brokers) - index))
            for index, broker in enumerate(brokers)
        }

    def _of_broker(
        self, broker: BrokerId, names: Collection[str], by: Deadline
    ) -> Mapping[str, str | None] | TanistError:
        try:
            found = describe_configs(self._router, ConfigResource(ConfigKind.BROKER, str(broker)), names, by)
        except Stopped:
            raise
        except TanistError as error:
            return error
        return {name: each.value for name, each in found.items()}

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        try:
            alter_configs(self._router, _ALL_BROKERS, {name: value}, by)
        except TanistError as error:
            return error
        return None


def _values(found: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {name: each.value for name, each in found.items() if each.value is not None}


_SETTLING: Final = 0.05
"""Seconds between polls of a topic that was just created, at least; and at most, where the polls take long."""
_LONG_SETTLING: Final = 0.5
_ALTERED_AT_ONCE: Final = 200
"""Topics in one request."""
_MOST_RECORDS: Final = 4_000
"""Of one CreateTopics: a 4.3.1 controller refuses what becomes more than 10,000 records of its log (one for each topic
and partition, more than one for each configuration: 1,500 topics with four are too many)."""


class KafkaTopics:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router, self._endpoint = router, router.endpoint
        self._asking = Asking(router)
        self._identified = False

    def cluster_id(self, by: Deadline) -> str:
        """The first call queries every bootstrap address, later ones any broker, which must be of that cluster."""
        if not self._identified:
            found, self._identified = identify(self._router, by), True
            return found

        def ask(router: Router, by: Deadline) -> str:
            router.refresh([], by)
            return str(router.cluster_id)

        return self._asking.read(ask, by, Operation("ask for the cluster id", "nothing"))

    def brokers(self, by: Deadline) -> tuple[int, ...]:
        """Ids of the brokers that are up, sorted."""

        def ask(router: Router, by: Deadline) -> tuple[int, ...]:
            router.refresh([], by)
            return tuple(sorted(router.brokers))

        return self._asking.read(ask, by, Operation("list brokers", "DESCRIBE on the cluster"))

    def names(self, by: Deadline) -> tuple[str, ...]:
        def ask(router: Router, by: Deadline) -> tuple[str, ...]:
            router.refresh(None, by)
            return tuple(sorted(name for name in router.topics() if not name.startswith("__")))

        return self._asking.read(ask, by, Operation("list topics", "DESCRIBE on topics"))

    def describe(
        self, names: Sequence[str], by: Deadline, configs: Collection[str] | None = None
    ) -> Mapping[str, TopicFacts | TanistError]:
        found = self._descriptions(names, by)
        there = [name for name, description in found.items() if isinstance(description, TopicInfo)]
        reported = self._configs(there, configs, by)
        return {name: _facts(found[name], reported.get(name)) for name in names}

    def partitions(self, names: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        found = self._descriptions(names, by)
        return {name: each if isinstance(each, TanistError) else len(each.partitions) for name, each in found.items()}

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        answers: dict[str, TanistError | None] = {}
        for chunk in _chunks(topics):
            answers |= self._create(chunk, by, validate_only=validate_only)
        if not validate_only:
            created = {topic.name: topic.partitions for topic in topics if answers[topic.name] is None}
            answers |= self._await_leaders(created, by)
        return answers

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        doing = Operation(f"add partitions to topic {topic}", f"ALTER on topic {topic}")
        error = self._asking.change(lambda router, by: create_partitions(router, topic, partitions, by), by, doing)
        return self._asking.named(error, doing) if error else self._await_leaders({topic: partitions}, by)[topic]

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], by: Deadline
    ) -> Mapping[str, TanistError | None]:
        found: dict[str, TanistError | None] = dict.fromkeys(changes)
        wanted = [topic for topic, some in changes.items() if some]
        for first in range(0, len(wanted), _ALTERED_AT_ONCE):
            found |= self._alter({topic: changes[topic] for topic in wanted[first : first + _ALTERED_AT_ONCE]}, by)
        return found

    def _alter(self, changes: Mapping[str, Mapping[str, str | None]], by: Deadline) -> dict[str, TanistError | None]:
        found = self._asking.change(
            lambda router, by: alter_topic_configs(router, changes, by), by, Operation("alter topics", "ALTER_CONFIGS")
        )
        return {
            topic: error
            and self._asking.named(error, Operation(f"alter topic {topic}", f"ALTER_CONFIGS on topic {topic}"))
            for topic, error in found.items()
        }

    def _create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool
    ) -> dict[str, TanistError | None]:
        found = self._asking.change(
            lambda router, by: create_topics(router, topics, by, validate_only=validate_only),
            by,
            Operation("create topics", "CREATE"),
        )
        return {name: error and self._asking.named(error, _creating(name)) for name, error in found.items()}

    # ── what brokers say ──────────────────────────────────────────────────────────────────────────────────────────

    def _descriptions(self, names: Sequence[str], by: Deadline) -> dict[str, TopicInfo | TanistError]:
        if not names:
            return {}

        def ask(router: Router, by: Deadline) -> dict[str, TopicInfo]:
            return dict(describe_topics(router.any_connection(by), names, by))

        found = self._asking.read(ask, by, Operation("describe topics", "DESCRIBE"))
        return {name: self._described(name, found.get(name)) for name in names}

    def _described(self, name: str, found: TopicInfo | None) -> TopicInfo | TanistError:
        if found is None:
            return UnknownTopicOrPartition(f"topic {name!r} of {self._endpoint.name}")
        doing = Operation(f"describe topic {name}", f"DESCRIBE on topic {name}")
        return self._asking.named(found.error, doing) if found.error else found

    def _configs(
        self, names: Sequence[str], configs: Collection[str] | None, by: Deadline
    ) -> dict[str, dict[str, ConfigValue] | TanistError]:
        doing = Operation("describe configurations", "DESCRIBE_CONFIGS")
        found = self._asking.read(lambda router, by: topic_configs(router, names, by, configs), by, doing)
        return {name: self._translate_error(each, _reading_configs(name)) for name, each in found.items()}

    def _translate_error(
        self, found: dict[str, ConfigValue] | TanistError, doing: Operation
    ) -> dict[str, ConfigValue] | TanistError:
        return self._asking.named(found, doing) if isinstance(found, TanistError) else found

    # ── a topic is not ready everywhere when CreateTopics returns ─────────────────────────────────────────────────

    def _await_leaders(self, created: Mapping[str, int], by: Deadline) -> dict[str, TanistError | None]:
        def ask(router: Router, by: Deadline) -> dict[str, TanistError]:
            began = time.monotonic()
            unsettled = _unsettled(router, created, by)
            while unsettled and by.left(time.monotonic()) > _SETTLING:
                took = time.monotonic() - began  # a broker that is asked all the time creates thousands half as fast
                router.pause(max(_SETTLING, min(3 * took, _LONG_SETTLING)), by)
                began = time.monotonic()
                unsettled = _unsettled(router, {name: created[name] for name in unsettled}, by)
            return unsettled

        if not created:
            return {}
        left = self._asking.change(ask, by, Operation("wait for new topics", "DESCRIBE"))
        return {name: left.get(name) for name in created}


def _unsettled(router: Router, created: Mapping[str, int], by: Deadline) -> dict[str, TanistError]:
    """Topics that some broker does not know yet, or without all their leaders, and what is missing.

    A broker has metadata a moment before it leads: so each leader is asked, too.
    """
    router.refresh(list(created), by)
    waiting: dict[str, TanistError] = {}
    for index, broker in enumerate(sorted(router.brokers)):
        waiting |= _unknown_to(router, broker, created, share(by, len(router.brokers) - index))
    if not waiting:
        partitions = [TopicPartition(name, n) for name, count in created.items() for n in range(count)]
        answers = list_offsets(router, dict.fromkeys(partitions, End.EARLIEST), by)
        waiting = {at.topic: why for at, why in answers.items() if isinstance(why, TanistError) and why.retriable}
    return waiting


def _unknown_to(router: Router, broker: BrokerId, created: Mapping[str, int], by: Deadline) -> dict[str, TanistError]:
    """Topics that this broker does not know: metadata shows only the knowledge of the broker that answers."""
    try:
        known = describe_topics(router.connection(broker, by), list(created), by)
    except Stopped:
        raise
    except CouldNotTell as silent:
        return dict.fromkeys(created, silent)
    waiting: dict[str, TanistError] = {}
    for name, partitions in created.items():
        found = known.get(name)
        if found is None or found.error is not None:
            waiting[name] = (found.error if found else None) or UnknownTopicOrPartition(f"topic {name!r}")
        elif leaderless := partitions - sum(each.leader is not None for each in found.partitions):
            waiting[name] = CouldNotTell(f"{leaderless} new partition(s) of topic {name} have no leader yet")
    return waiting


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


def _creating(name: str) -> Operation:
    return Operation(f"create topic {name}", f"CREATE on topic {name} or on the cluster")


def _reading_configs(name: str) -> Operation:
    return Operation(f"describe the configuration of topic {name}", f"DESCRIBE_CONFIGS on topic {name}")


def _facts(
    description: TopicInfo | TanistError, configs: Mapping[str, ConfigValue] | TanistError | None
) -> TopicFacts | TanistError:
    if isinstance(description, TanistError):
        return description
    if configs is None or isinstance(configs, TanistError):
        return configs or UnknownTopicOrPartition(f"topic {description.name} was just deleted")
    reported = {name: each for name, each in configs.items() if each.value is not None}
    return TopicFacts(
        name=description.name,
        topic_id=topic_id_text(description.topic_id) if description.topic_id else "",
        internal=description.internal,
        partitions=len(description.partitions),
        replication_factor=len(description.partitions[0].replicas),
        configs={name: str(each.value) for name, each in reported.items() if each.source == TOPIC_ITSELF},
        effective={name: str(each.value) for name, each in reported.items()},
        leaders=tuple(each.leader for each in description.partitions),
        in_sync=tuple(0 if each.leader is None else len(each.isr) for each in description.partitions),
    )


class KafkaTopicDeletion:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router, self._asking = router, Asking(router)

    def delete(self, topic: str, topic_id: str, by: Deadline) -> TanistError | None:
        doing = Operation(f"delete topic {topic}", f"DELETE on topic {topic}")
        error = self._asking.change(lambda router, by: delete_topic(router, topic, topic_id, by), by, doing)
        if error is None or isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)):
            return None
        return self._asking.named(error, doing)


class KafkaLogSizes:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def sizes(self, partitions: Sequence[TopicPartition], by: Deadline) -> dict[TopicPartition, int]:
        return log_sizes(self._router, partitions, by) if partitions else {}
