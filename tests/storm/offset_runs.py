"""The offset map as it is stored, read by an ordinary consumer."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, TopicPartition

from tanist.domain.broker_errors import UnstableOffsetCommit
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.fake_group import copied_position, group_of
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OFFSETS_TOPIC, OffsetMode, OffsetRangeWritten
from tanist.domain.state_record import StateRecord, Tombstone
from tanist.domain.state_view import StateView
from tanist.kafka.adapters.logs import KafkaLogs
from tanist.kafka.protocol.stored import decode
from tanist.kafka.wire.groups import fetch_positions
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.router import Router
from tanist.usecases.offset_policy import detailed
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.reading import bounds
from tanist_testkit.verify.traces import Place
from tests.builders import a_mirror

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer

    from tanist.domain.fake_group import CopiedPosition
    from tanist.ports.clock import Clock, Deadline


def maps(bootstrap: str, by: Deadline, clock: Clock) -> dict[Place, OffsetMap]:
    """Of every partition that has runs, of mirrors with identical offsets."""
    found: defaultdict[Place, list[OffsetRange]] = defaultdict(list)
    for record in _stored(bootstrap, by, clock):
        if isinstance(record, OffsetRangeWritten):
            found[Place(*record.partition)].append(OffsetRange(record.source, record.destination))
    return {place: OffsetMap.of(runs) for place, runs in found.items()}


def mapped_maps(
    bootstrap: str, mirror: str, by: Deadline, clock: Clock, *, whole: bool = False
) -> dict[Place, OffsetMap]:
    """Of every partition of a mirror with mapped offsets that has a position.

    `whole`: with what lies between the anchors of old ranges, for which the log of the copy is read.
    """
    pairs = (each.rpartition(":") for each in bootstrap.split(","))
    endpoint = Endpoint(name="storm", bootstrap=tuple(Address(host, int(port)) for host, _, port in pairs))
    with Router(endpoint, "tanist-storm") as router:
        positions = _positions(router, group_of(MirrorName(mirror)), by)
        spec = a_mirror(
            MirrorName(mirror),
            mirror_id=next((each.mirror_id for each in positions.values()), ""),
            offsets=OffsetMode.MAPPED,
            transactional_id="any",
        )
        latest: dict[str, StateRecord] = {}
        for record in _stored(bootstrap, by, clock):
            latest[record.key] = record
        view = StateView({key: each for key, each in latest.items() if not isinstance(each, Tombstone)})
        policy = OffsetPolicy.of(view, spec, positions)
        if whole:
            destination: Any = SimpleNamespace(logs=KafkaLogs(router))
            policy = detailed(policy, destination, dict.fromkeys(positions), by)
    return {Place(*at): policy.map_of(at) for at in positions}


def _positions(router: Router, group: str, by: Deadline) -> dict[MirrorPartition, CopiedPosition]:
    """What is committed in the group of the mirror's positions, whatever mirror and topic it says it is of.

    Read as the product does: librdkafka gives metadata of the answer's buffer, which does not end where they do.
    """
    held = value(fetch_positions(router, [group], by)[group])
    while any(isinstance(each, UnstableOffsetCommit) for each in held.values()):
        router.pause(0.1, by)  # what an open transaction is about to move
        held = value(fetch_positions(router, [group], by)[group])
    found = {}
    for each, answer in held.items():
        at, committed = MirrorPartition(*each), value(answer)
        mirror_id, topic_id = committed.metadata.split(" ")[1:3]
        found[at] = copied_position(at, committed.offset, committed.metadata, mirror_id, topic_id)
    return found


def _stored(bootstrap: str, by: Deadline, clock: Clock) -> Iterator[StateRecord]:
    """All records of the topic of offset maps, in their order."""
    at = Place(OFFSETS_TOPIC, 0)
    log = bounds(bootstrap, [at], by, clock)[at]
    client = consumer(bootstrap)
    try:
        client.assign([TopicPartition(*at, log.start)])
        if log.end > log.start:
            yield from _until_end(client, by, clock)
    finally:
        client.close()


def _until_end(client: Consumer, by: Deadline, clock: Clock) -> Iterator[StateRecord]:
    while by.left(clock.monotonic()):
        for message in client.consume(1000, 0.2):
            problem = message.error()
            if problem is not None and problem.code() == KafkaError._PARTITION_EOF:
                return
            record = decode(message.key() or b"", message.value())
            if problem is None and isinstance(record, StateRecord):
                yield record
    raise TimeoutError(OFFSETS_TOPIC)
