"""MirrorMaker 2's own topics in memory: the bytes that a real one has written, or others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.mirrormaker.records import TopicRead
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.mirrormaker import checkpoint, heartbeat, offset_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.mirrormaker.records import CheckpointEvent, HeartbeatEvent, SyncEvent
    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster

_E = TypeVar("_E")


class MemoryMirrorMaker:
    """The port `MirrorMakerTopics`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def offset_syncs(self, topic: str, by: Deadline) -> TopicRead[SyncEvent]:
        return self._read(topic, offset_sync)

    def checkpoints(self, topic: str, by: Deadline) -> TopicRead[CheckpointEvent]:
        return self._read(topic, checkpoint)

    def heartbeats(self, topic: str, by: Deadline) -> TopicRead[HeartbeatEvent]:
        return self._read(topic, heartbeat)

    def _read(self, topic: str, decode: Callable[[bytes | None, bytes | None], _E]) -> TopicRead[_E]:
        self._cluster.answer()
        facts = self._cluster.topics.get(topic)
        if facts is None or not self._cluster.may("DESCRIBE", topic):
            raise UnknownTopicOrPartition(f"topic {topic!r} of {self._cluster.name}")
        if not self._cluster.may("READ", topic):
            raise TopicAuthorizationFailed(topic)
        start, _, _ = self._cluster.ends[TopicPartition(topic, 0)]
        return TopicRead(
            topic=topic,
            events=tuple(decode(*each) for each in self._cluster.raw_records.get(topic, ())),
            start=start,
            compacted=facts.configs.get("cleanup.policy") == "compact",
            written_at=self._cluster.clock.now(),
        )
