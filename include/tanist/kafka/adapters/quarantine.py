"""Copies divergent tails into quarantine topics, and back, each record once: the ports `Quarantine` and `Replays`.

As in the fetcher, each batch names our producer id and the number of records before it, so a broker takes it only
behind those. What is copied already is read from the log itself: each record says in headers where it came from.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.broker_errors import OutOfOrderSequence, TopicAlreadyExists, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.names import SEQUENCE_MODULUS, MirrorPartition
from tanist.kafka.adapters.bounds import settled_ends
from tanist.kafka.adapters.committed_records import committed, judged_batches
from tanist.kafka.adapters.compacted_topic import MIN_IN_SYNC, REPLICAS
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.origin import (
    Outgoing,
    RecordOrigin,
    batch_of,
    key_of,
    tombstone_of,
    with_origin,
    without_origin,
)
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, append, describe_producers, init_producer_id, list_offsets
from tanist.kafka.wire.rights import may_write
from tanist.ports.tails import KeyWritten, Replayed, RescuedRecord, TailDigest
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.names import EpochMs, ProducerId
    from tanist.kafka.adapters.committed_records import Committed
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import TailCopy


EPOCH: Final = 0
CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(64 << 20),  # any batch of the source, also one that was compressed better
    "message.timestamp.type": "CreateTime",
}
BATCH_BYTES = 500_000
"""Of keys, values and headers, before they are compressed."""
_BATCH_RECORDS: Final = 1_000
_PAUSE: Final = 0.2
_HEAD: Final = Struct(">qqi")


class KafkaQuarantine:
    """`source`: the old source; `destination`: the new primary. Owned by one thread."""

    def __init__(self, source: Router, destination: Router, *, allow_small: bool = False) -> None:
        self._source, self._destination = source, destination
        self._topics, self._allow_small = KafkaTopics(destination), allow_small

    def create(self, topic: str, partitions: int, by: Deadline) -> None:
        facts = self._topics.describe([topic], by)[topic]
        if isinstance(facts, UnknownTopicOrPartition):
            replicas = min(REPLICAS, len(self._topics.brokers(by))) if self._allow_small else REPLICAS
            in_sync = MIN_IN_SYNC if replicas >= REPLICAS else 1
            configs = {**CONFIGS, "min.insync.replicas": str(in_sync)}
            new = NewTopic(name=topic, partitions=partitions, replication_factor=replicas, configs=configs)
            error = self._topics.create([new], by)[topic]
            if error is not None and not isinstance(error, TopicAlreadyExists):
                raise error
            return
        if isinstance(facts, TanistError):
            raise facts
        self._must_keep(facts)
        if facts.partitions < partitions and (error := self._topics.grow(topic, partitions, by)):
            raise error

    def ends(self, partitions: Iterable[MirrorPartition], by: Deadline) -> Mapping[MirrorPartition, int]:
        return {at: _must(end) for at, end in settled_ends(self._destination, partitions, by).items()}

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._destination, by)

    def copy(self, tail: TailCopy, confirm: Callable[[], Deadline], by: Deadline) -> Iterator[int]:
        while True:
            try:
                position = self._position(tail, by)
                for batch in self._batches(tail, position, by):
                    base = append(self._destination, {tail.into: batch.payload}, confirm())[tail.into]
                    _must(base)
                    yield batch.until
            except TanistError as why:
                passing = why.retriable or isinstance(why, OutOfOrderSequence)
                if not passing or by.left(time.monotonic()) <= _PAUSE:
                    raise
                self._destination.pause(_PAUSE, by)
                with suppress(TanistError):
                    self._destination.refresh([tail.into.topic], by)
            else:
                return

    def at_source(self, tail: TailCopy, by: Deadline) -> TailDigest:
        digesting, begin = _Digesting(), max(tail.begin, self._start(tail, by))
        for record in committed(self._source, tail.source, begin, tail.end, by):
            digesting.add(record.offset, record.time, record.rest)
        return digesting.result(begin)

    def rescued(self, tail: TailCopy, by: Deadline) -> TailDigest:
        digesting, until = _Digesting(), tail.start
        for record, rest, origin in copies(self._destination, tail, by):
            if origin.offset >= tail.begin:
                digesting.add(origin.offset, record.time, rest)
            until = record.offset + 1
        return digesting.result(tail.begin, until)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, tail: TailCopy, by: Deadline) -> int:
        return value(list_offsets(self._source, {tail.source: End.EARLIEST}, by)[tail.source])

    def _position(self, tail: TailCopy, by: Deadline) -> _Position:
        offset, count = tail.begin, 0
        for _, _, origin in copies(self._destination, tail, by):
            offset, count = origin.offset + 1, count + 1
        return _Position(offset, count)

    def _batches(self, tail: TailCopy, position: _Position, by: Deadline) -> Iterator[_Batch]:
        pending: list[Outgoing] = []
        size, count = 0, position.written
        begin = max(position.offset, self._start(tail, by))
        for record in committed(self._source, tail.source, begin, tail.end, by):
            origin = RecordOrigin(tail.cluster_id, tail.source, record.offset)
            outgoing = Outgoing(record.time, with_origin(record.rest, origin))
            if pending and (size + len(outgoing.rest) > BATCH_BYTES or len(pending) >= _BATCH_RECORDS):
                yield _batch(pending, tail, count)
                count += len(pending)
                pending, size = [], 0
            pending.append(outgoing)
            size += len(outgoing.rest)
        if pending:
            yield _batch(pending, tail, count)

    def _must_keep(self, facts: TopicFacts) -> None:
        wrong = [f"{name}={facts.effective.get(name)}" for name in _KEEPS if facts.effective.get(name) != CONFIGS[name]]
        if wrong:
            raise CouldNotTell(f"quarantine topic {facts.name} may lose records: {', '.join(wrong)}")


_KEEPS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


def copies(destination: Router, tail: TailCopy, by: Deadline) -> Iterator[tuple[Committed, bytes, RecordOrigin]]:
    """The rescued records of a tail, each also as it was at the source.

    Raises:
        CouldNotTell: they are not in the order of the source, so one may be there twice.
    """
    end = _must(settled_ends(destination, [tail.into], by)[tail.into])
    last = -1
    for record in committed(destination, tail.into, tail.start, end, by):
        if record.header.producer_id != tail.producer_id:
            continue
        rest, origin = without_origin(record.rest)
        if (origin.cluster_id, origin.partition) != (tail.cluster_id, tail.source) or origin.offset <= last:
            raise CouldNotTell(f"{tail.into} has at offset {record.offset} a record that does not follow: {origin}")
        last = origin.offset
        yield record, rest, origin


class _Position(NamedTuple):
    """The next offset of the source, and how many records came before."""

    offset: int
    written: int


class _Batch(NamedTuple):
    payload: bytearray
    until: int


def _batch(records: list[Outgoing], tail: TailCopy, count: int) -> _Batch:
    payload = batch_of(records, tail.producer_id, EPOCH, count % SEQUENCE_MODULUS)
    return _Batch(payload, count + len(records))


@dataclass(slots=True)
class _Digesting:
    records: int = 0
    size: int = 0
    first: int | None = None
    last: int | None = None
    sum: Any = field(default_factory=hashlib.sha256)

    def add(self, offset: int, when: int, rest: bytes) -> None:
        self.records += 1
        self.size += len(rest)
        self.first = offset if self.first is None else self.first
        self.last = offset
        self.sum.update(_HEAD.pack(offset, when, len(rest)))
        self.sum.update(rest)

    def result(self, begin: int, until: int = -1) -> TailDigest:
        return TailDigest(
            records=self.records,
            bytes=self.size,
            first=self.first,
            last=self.last,
            digest=self.sum.hexdigest(),
            begin=begin,
            until=until,
        )


def _must(answer: int | TanistError) -> int:
    if isinstance(answer, TanistError):
        raise answer
    return answer


class KafkaReplays:
    """Owned by one thread, with the router of the new primary."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def may_write(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        return may_write(self._router, topics, by)

    def rescued(self, tail: TailCopy, by: Deadline) -> Iterator[RescuedRecord]:
        for record, rest, origin in copies(self._router, tail, by):
            yield RescuedRecord(origin.offset, record.time, key_of(rest), rest)

    def end(self, at: MirrorPartition, by: Deadline) -> int:
        end = settled_ends(self._router, [at], by)[at]
        if isinstance(end, TanistError):
            raise end
        return end

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)

    def last_of_keys(
        self,
        at: MirrorPartition,
        span: tuple[int, int],
        keys: Container[bytes],
        own_from: int,
        without: Container[int],
        by: Deadline,
    ) -> Mapping[bytes, KeyWritten]:
        found: dict[bytes, KeyWritten] = {}
        begin = max(span[0], self._start(at, by))
        for record in committed(self._router, at, begin, span[1], by):
            key = key_of(record.rest)
            if key is None or key not in keys:
                continue
            own = record.offset >= own_from and record.header.producer_id not in without
            before = found.get(key)
            if not own and record.offset >= own_from:
                continue
            found[key] = KeyWritten(record.offset, record.time, record.rest, own or (before is not None and before.own))
        return found

    def replayed(self, at: MirrorPartition, start: int, producer_id: int, by: Deadline) -> Replayed:
        last = offset = None
        begin, end = max(start, self._start(at, by)), self.end(at, by)
        for header, batch, _ in judged_batches(self._router, at, begin, end, by):
            if header.producer_id != producer_id:
                continue
            last = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCE_MODULUS
            for record in records_left(header, batch):
                offset = without_origin(record.rest)[1].offset
            if not header.record_count:
                offset = None
        if last is None:
            last = self._remembered(at, producer_id, by)
        return Replayed(last, offset)

    def append(
        self, tail: TailCopy, records: Sequence[RescuedRecord], producer_id: int, sequence: int, by: Deadline
    ) -> None:
        outgoing = [
            Outgoing(each.time, with_origin(each.rest, RecordOrigin(tail.cluster_id, tail.source, each.offset)))
            for each in records
        ]
        batch = batch_of(outgoing, producer_id, EPOCH, sequence % SEQUENCE_MODULUS)
        answer = append(self._router, {tail.source: batch}, by)[tail.source]
        if isinstance(answer, TanistError):
            raise answer

    def current(self, of: RescuedRecord, last: KeyWritten | None, now: EpochMs) -> RescuedRecord:
        if last is None:
            return of._replace(time=now, rest=tombstone_of(of.key or b""))
        return of._replace(time=last.time, rest=last.rest)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, at: MirrorPartition, by: Deadline) -> int:
        return value(list_offsets(self._router, {at: End.EARLIEST}, by)[at])

    def _remembered(self, at: MirrorPartition, producer_id: int, by: Deadline) -> int | None:
        """How many records the leader remembers of a producer id; None: it does not know it."""
        states = value(describe_producers(self._router, [at], by)[at])
        found = [each.last_sequence + 1 for each in states if each.producer_id == producer_id]
        return found[0] if found else None
