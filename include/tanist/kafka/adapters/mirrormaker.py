"""MirrorMaker 2's own topics over `kafka.wire`: the port `MirrorMakerTopics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import TanistError
from tanist.domain.mirrormaker.records import TopicRead
from tanist.domain.names import EpochMs, TopicPartition
from tanist.kafka.adapters.committed_records import judged_batches
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.batch import HEADER_SIZE
from tanist.kafka.protocol.compression import decompressed
from tanist.kafka.protocol.mirrormaker import checkpoint, heartbeat, offset_sync
from tanist.kafka.protocol.record_set import records_in
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import readable_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.domain.mirrormaker.records import CheckpointEvent, HeartbeatEvent, SyncEvent
    from tanist.kafka.protocol.record_set import Record
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_E = TypeVar("_E")

_POLICY: Final = "cleanup.policy"
LAST_HEARTBEATS: Final = 1_000
"""Offsets. MM2 writes one heartbeat a second for each pair of aliases, and the last one of each is all that counts."""


class KafkaMirrorMakerTopics:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._topics = KafkaTopics(router)

    def offset_syncs(self, topic: str, by: Deadline) -> TopicRead[SyncEvent]:
        return self._read(topic, offset_sync, by)

    def checkpoints(self, topic: str, by: Deadline) -> TopicRead[CheckpointEvent]:
        return self._read(topic, checkpoint, by)

    def heartbeats(self, topic: str, by: Deadline) -> TopicRead[HeartbeatEvent]:
        return self._read(topic, heartbeat, by, most=LAST_HEARTBEATS)

    def _read(
        self,
        topic: str,
        decode: Callable[[bytes | None, bytes | None], _E],
        by: Deadline,
        most: int | None = None,
    ) -> TopicRead[_E]:
        """`most`: how many offsets before its end; None: all."""
        value(self._topics.partitions([topic], by)[topic])
        at = TopicPartition(topic, 0)
        ends = value(readable_ends(self._router, [at], by)[at])
        events: list[_E] = []
        last = 0
        begin = ends.start if most is None else max(ends.start, ends.last_stable - most)
        for record in self._records(at, begin, ends.last_stable, by):
            events.append(decode(record.key, record.value))
            last = record.timestamp
        return TopicRead(
            topic=topic,
            events=tuple(events),
            start=ends.start,
            compacted=self._is_compacted(topic, by),
            written_at=EpochMs(last),
        )

    def _records(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> Iterator[Record]:
        for header, batch, is_seen in judged_batches(self._router, at, begin, end, by):
            if is_seen and header.record_count:
                body = decompressed(header.codec, batch[HEADER_SIZE:])
                yield from (each for each in records_in(header, body) if begin <= each.offset < end)

    def _is_compacted(self, topic: str, by: Deadline) -> bool:
        """False also if its configuration may not be read."""
        found = self._topics.describe([topic], by)[topic]
        return not isinstance(found, TanistError) and found.effective.get(_POLICY) == "compact"
