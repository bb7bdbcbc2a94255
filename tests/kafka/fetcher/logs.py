"""What a log holds, read by an ordinary client that shares no code with the copier."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

from tanist.domain.names import MirrorPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

READ_SECONDS = 30.0


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    time: tuple[int, int]
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[object, ...]:
        """All but the offset."""
        return self[1:]


Logs = dict[MirrorPartition, list[Row]]


def read(servers: str, partitions: Iterable[MirrorPartition], isolation: str) -> Logs:
    """Every record of every partition, checksums checked, up to where a reader of this isolation level gets."""
    rows: Logs = {at: [] for at in partitions}
    todo = set(rows)
    settings = {
        "bootstrap.servers": servers,
        "group.id": "checker",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "check.crcs": True,
        "fetch.wait.max.ms": 20,
        "fetch.error.backoff.ms": 10,
        "auto.offset.reset": "error",
        "topic.metadata.refresh.interval.ms": 1000,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([Place(at.topic, at.partition, OFFSET_BEGINNING) for at in rows])
        by = time.monotonic() + READ_SECONDS
        while todo:
            assert time.monotonic() < by, f"not readable to the end: {todo}"
            for message in consumer.consume(10_000, 0.05):
                at = MirrorPartition(message.topic() or "", message.partition() or 0)
                error = message.error()
                if error is None:
                    rows[at].append(
                        Row(
                            message.offset() or 0,
                            _bytes(message.key()),
                            _bytes(message.value()),
                            message.timestamp(),
                            _headers(message.headers()),
                        )
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    todo.discard(at)
                else:
                    assert error.retriable() or error.code() < 0, error
    finally:
        consumer.close()
    return rows


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(value)) for name, value in headers or ())


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def first_difference(ours: Logs, theirs: Logs) -> str:
    """Where two reads differ first, for people; empty: nowhere."""
    for at, left in ours.items():
        right = theirs[at]
        for a, b in zip(left, right, strict=False):
            if a != b:
                return f"{at}: {a} is not {b}"
        if len(left) != len(right):
            return f"{at}: {len(left)} records are not {len(right)}; last {left[-1:]} and {right[-1:]}"
    return ""
