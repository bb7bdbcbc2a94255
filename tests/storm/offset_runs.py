"""The offset map as it is stored, read by an ordinary consumer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, TopicPartition

from tanist.domain.broker_errors import UnstableOffsetCommit
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.fake_group import copied_position, group_of
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.records import OFFSETS_TOPIC, OffsetRangeWritten
from tanist.kafka.protocol.stored import decode
from tanist.kafka.wire.groups import fetch_positions
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.router import Router
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.reading import bounds
from tanist_testkit.verify.traces import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer

    from tanist.domain.fake_group import CopiedPosition
    from tanist.ports.clock import Clock, Deadline


def maps(bootstrap: str, by: Deadline, clock: Clock, *, mirror: str = "") -> dict[Place, OffsetMap]:
    """Of every partition that has runs. `mirror`: one with mapped offsets, whose positions have the last runs."""
    positions = _positions(bootstrap, group_of(MirrorName(mirror)), by) if mirror else {}
    at = Place(OFFSETS_TOPIC, 0)
    log = bounds(bootstrap, [at], by, clock)[at]
    client = consumer(bootstrap)
    found: defaultdict[Place, list[OffsetRange]] = defaultdict(list)
    try:
        client.assign([TopicPartition(*at, log.start)])
        for record in _until_end(client, by, clock) if log.end > log.start else ():
            found[Place(*_place(record))] += _runs(record)
    finally:
        client.close()
    for place, held in positions.items():
        found[place] += held.runs
    untils = {place: held.position for place, held in positions.items()}
    return {place: OffsetMap.of(runs, untils.get(place)) for place, runs in found.items()}


def _runs(record: OffsetRangeWritten | OffsetRangesWritten) -> tuple[OffsetRange, ...]:
    if isinstance(record, OffsetRangesWritten):
        return record.runs
    return (OffsetRange(record.source, record.destination),)


def _positions(bootstrap: str, group: str, by: Deadline) -> dict[Place, CopiedPosition]:
    """What is committed in the group of the mirror's positions, whatever mirror and topic it says it is of.

    Read as the product does: librdkafka gives metadata of the answer's buffer, which does not end where they do.
    """
    pairs = (each.rpartition(":") for each in bootstrap.split(","))
    endpoint = Endpoint(name="storm", bootstrap=tuple(Address(host, int(port)) for host, _, port in pairs))
    with Router(endpoint, "tanist-storm") as router:
        held = value(fetch_positions(router, [group], by)[group])
        while any(isinstance(each, UnstableOffsetCommit) for each in held.values()):
            router.pause(0.1, by)  # what an open transaction is about to move
            held = value(fetch_positions(router, [group], by)[group])
    found = {}
    for at, answer in held.items():
        each = value(answer)
        mirror_id, topic_id = each.metadata.split(" ")[1:3]
        there = MirrorPartition(at.topic, at.partition)
        found[Place(*at)] = copied_position(there, each.offset, each.metadata, mirror_id, topic_id)
    return found


def _until_end(client: Consumer, by: Deadline, clock: Clock) -> Iterator[OffsetRangeWritten | OffsetRangesWritten]:
    while by.left(clock.monotonic()):
        for message in client.consume(1000, 0.2):
            problem = message.error()
            if problem is not None and problem.code() == KafkaError._PARTITION_EOF:
                return
            if problem is None and isinstance(
                record := decode(message.key() or b"", message.value()), OffsetRangeWritten | OffsetRangesWritten
            ):
                yield record
    raise TimeoutError(OFFSETS_TOPIC)


def _place(record: OffsetRangeWritten | OffsetRangesWritten) -> tuple[str, int]:
    return record.partition.topic, record.partition.partition
