"""Appends rescued records to the end of the topics that they belong to, each once: the port `Replays`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import SEQUENCE_MODULUS
from tanist.kafka.adapters.committed_records import batches, committed
from tanist.kafka.adapters.quarantine import EPOCH, copies
from tanist.kafka.adapters.settled_ends import settled_ends
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
from tanist.kafka.wire.requests import (
    End,
    append,
    describe_producers,
    init_producer_id,
    list_offsets,
)
from tanist.kafka.wire.rights import may_write
from tanist.ports.tails import KeyWritten, Replayed, RescuedRecord

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from tanist.domain.names import EpochMs, ProducerId, TopicPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import TailCopy


class KafkaReplays:
    """Owned by one thread, with the router of the new primary."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def may_write(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        return may_write(self._router, topics, by)

    def rescued(self, tail: TailCopy, by: Deadline) -> Iterator[RescuedRecord]:
        for record, rest, origin in copies(self._router, tail, by):
            yield RescuedRecord(origin.offset, record.time, key_of(rest), rest)

    def end(self, at: TopicPartition, by: Deadline) -> int:
        end = settled_ends(self._router, [at], by)[at]
        if isinstance(end, TanistError):
            raise end
        return end

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)

    def last_of_keys(
        self,
        at: TopicPartition,
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

    def replayed(self, at: TopicPartition, start: int, producer_id: int, by: Deadline) -> Replayed:
        last = offset = None
        for header, batch in batches(self._router, at, max(start, self._start(at, by)), self.end(at, by), by):
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

    def _start(self, at: TopicPartition, by: Deadline) -> int:
        return value(list_offsets(self._router, {at: End.EARLIEST}, by)[at])

    def _remembered(self, at: TopicPartition, producer_id: int, by: Deadline) -> int | None:
        """How many records the leader remembers of a producer id; None: it does not know it."""
        states = value(describe_producers(self._router, [at], by)[at])
        found = [each.last_sequence + 1 for each in states if each.producer_id == producer_id]
        return found[0] if found else None
