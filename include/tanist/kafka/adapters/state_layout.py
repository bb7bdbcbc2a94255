"""The required configuration of a state topic: a missing topic is created, another configuration refused."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import TopicAlreadyExists, UnknownTopicOrPartition
from tanist.domain.errors import TanistError, UnsafeStateTopic
from tanist.domain.records import STATE_PARTITIONS
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.kafka.adapters.topics import KafkaTopics
    from tanist.ports.clock import Deadline

REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2
_APPEARING: Final = 0.1
_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 << 20),  # only closed segments are compacted, and a replay reads all that is left
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """`partitions` is pinned at creation. `allow_small`: on fewer than three brokers, as many replicas as brokers."""

    partitions: int = STATE_PARTITIONS
    allow_small: bool = False


def ensure(topics: KafkaTopics, topic: str, layout: TopicLayout, by: Deadline, *, create: bool) -> TopicFacts:
    """The topic; created first if it is missing and `create` is True.

    Raises:
        UnsafeStateTopic: it is not compacted, not replicated enough, or has another number of partitions.
        UnknownTopicOrPartition: it is missing, and `create` is False.
    """
    facts = topics.describe([topic], by)[topic]
    if create and isinstance(facts, UnknownTopicOrPartition):
        _create(topics, topic, layout, by)
        facts = _appeared(topics, topic, by)
    if isinstance(facts, TanistError):
        raise facts
    if flaws := list(_flaws(facts, layout)):
        raise UnsafeStateTopic(f"topic {topic}: {'; '.join(flaws)}")
    return facts


def _create(topics: KafkaTopics, topic: str, layout: TopicLayout, by: Deadline) -> None:
    replicas = min(REPLICAS, len(topics.brokers(by))) if layout.allow_small else REPLICAS
    in_sync = MIN_IN_SYNC if replicas >= REPLICAS else 1
    new = NewTopic(
        name=topic,
        partitions=layout.partitions,
        replication_factor=replicas,
        configs={**_CONFIGS, "min.insync.replicas": str(in_sync)},
    )
    error = topics.create([new], by)[topic]
    if error and not isinstance(error, TopicAlreadyExists):  # somebody else was faster
        raise error


def _appeared(topics: KafkaTopics, topic: str, by: Deadline) -> TopicFacts | TanistError:
    """Wait for a topic that another process has just created: it exists before every broker knows it."""
    pause = threading.Event()
    while True:
        facts = topics.describe([topic], by)[topic]
        if not isinstance(facts, UnknownTopicOrPartition) or by.left(time.monotonic()) <= _APPEARING:
            return facts
        pause.wait(_APPEARING)


def _flaws(facts: TopicFacts, layout: TopicLayout) -> Iterator[str]:
    configs = facts.effective
    if configs.get("cleanup.policy") != "compact":
        yield f"cleanup.policy is {configs.get('cleanup.policy')}, which deletes records: it must be compact"
    if facts.partitions != layout.partitions:
        yield f"it has {facts.partitions} partitions, expected are {layout.partitions}"
    if layout.allow_small:
        return
    if facts.replication_factor < REPLICAS:
        yield f"replication factor is {facts.replication_factor}, required is {REPLICAS}"
    if int(configs.get("min.insync.replicas", "1")) < MIN_IN_SYNC:
        yield f"min.insync.replicas {configs.get('min.insync.replicas')}, required is {MIN_IN_SYNC}"
