"""The offset map as it is stored, read by an ordinary consumer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, TopicPartition

from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.records import OFFSETS_TOPIC, OffsetRangeWritten
from tanist.kafka.protocol.stored import decode
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.reading import bounds
from tanist_testkit.verify.traces import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer

    from tanist.ports.clock import Clock, Deadline


def maps(bootstrap: str, by: Deadline, clock: Clock) -> dict[Place, OffsetMap]:
    """Of every partition that has runs."""
    at = Place(OFFSETS_TOPIC, 0)
    log = bounds(bootstrap, [at], by, clock)[at]
    client = consumer(bootstrap)
    found: defaultdict[Place, list[OffsetRange]] = defaultdict(list)
    try:
        client.assign([TopicPartition(*at, log.start)])
        for record in _until_end(client, by, clock) if log.end > log.start else ():
            found[Place(*_place(record))].append(OffsetRange(record.source, record.destination))
    finally:
        client.close()
    return {place: OffsetMap.of(runs) for place, runs in found.items()}


def _until_end(client: Consumer, by: Deadline, clock: Clock) -> Iterator[OffsetRangeWritten]:
    while by.left(clock.monotonic()):
        for message in client.consume(1000, 0.2):
            problem = message.error()
            if problem is not None and problem.code() == KafkaError._PARTITION_EOF:
                return
            if problem is None and isinstance(
                record := decode(message.key() or b"", message.value()), OffsetRangeWritten
            ):
                yield record
    raise TimeoutError(OFFSETS_TOPIC)


def _place(record: OffsetRangeWritten) -> tuple[str, int]:
    return record.partition.topic, record.partition.partition
