"""Divergent tails in memory: compared, copied to quarantine, replayed, and the topics of an old source deleted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import OutOfOrderSequence
from tanist.domain.failback.open_transactions import ONGOING, ReturnedTransaction
from tanist.domain.failback.survey import TailCounts
from tanist.domain.names import EpochMs, MirrorPartition, ProducerId, TopicPartition
from tanist.ports.tails import KeyWritten, Replayed, RescuedRecord, TailDigest
from tests.fakes.records import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import CopiedSpan, TailCopy, TailSpan
    from tests.fakes.records import RecordedCluster

AT_ONCE = 2
"""Records that one append copies to quarantine."""


class MemoryTails:
    """The port `DivergentTails`."""

    def __init__(self, source: RecordedCluster, destination: RecordedCluster) -> None:
        self._source, self._destination = source, destination

    def common_ends(self, copied: Mapping[MirrorPartition, CopiedSpan], by: Deadline) -> dict[MirrorPartition, int]:
        self._source.answer()
        self._destination.answer()
        return {at: self._common_end(at, span) for at, span in copied.items()}

    def counts(
        self, tails: Mapping[MirrorPartition, tuple[int, int]], by: Deadline
    ) -> dict[MirrorPartition, TailCounts]:
        self._source.answer()
        return {at: _counts([record for _, record in self._source.log(at, *span)]) for at, span in tails.items()}

    def transactions(self, spans: Mapping[MirrorPartition, TailSpan], by: Deadline) -> dict[MirrorPartition, tuple[()]]:
        self._source.answer()
        return dict.fromkeys(spans, ())

    def _common_end(self, at: MirrorPartition, span: CopiedSpan) -> int:
        ours, theirs = self._source, self._destination
        bound = min(span.end, span.source_end)
        for offset in range(max(ours.ends[at][0], theirs.ends[at][0]), bound):
            reserved = any(first <= offset < behind for first, behind in span.reserves)
            if not reserved and ours.records[at].get(offset) != theirs.records[at].get(offset):
                return offset
        return bound


def _counts(found: Sequence[Written]) -> TailCounts:
    times = [EpochMs(each.time) for each in found]
    return TailCounts(
        records=len(found),
        bytes=sum(len(each.rest) for each in found),
        keys=len({each.key for each in found if each.key is not None}),
        first=min(times, default=None),
        last=max(times, default=None),
    )


def rescued(cluster: RecordedCluster, tail: TailCopy) -> Iterator[tuple[int, Written]]:
    """What quarantine has of a tail: the offset there, and the record with its origin."""
    for offset, record in cluster.log(tail.into, tail.start):
        if cluster.producers[tail.into, offset] == tail.producer_id:
            yield offset, record


class MemoryQuarantine:
    """The port `Quarantine`. `point`: is called where a process may be frozen between its last look and an append."""

    def __init__(self, source: RecordedCluster, destination: RecordedCluster, point: Callable[[str], None]) -> None:
        self._source, self._destination, self._point = source, destination, point

    def create(self, topic: str, partitions: int, by: Deadline) -> None:
        self._destination.answer()
        if topic not in self._destination.topics:
            self._destination.with_topic(topic, partitions, cleanup_policy="delete", retention_ms="-1")

    def ends(self, partitions: Iterable[MirrorPartition], by: Deadline) -> dict[MirrorPartition, int]:
        self._destination.answer()
        return {at: self._destination.ends[at][1] for at in partitions}

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return new_producer_id(self._destination)

    def copy(self, tail: TailCopy, confirm: Callable[[], Deadline], by: Deadline) -> Iterator[int]:
        while True:
            there = [record for _, record in rescued(self._destination, tail)]
            self._source.answer()
            begin = there[-1].origin + 1 if there else tail.begin
            batch = [replace(each, origin=at) for at, each in self._source.log(tail.source, begin, tail.end)][:AT_ONCE]
            if not batch:
                return
            confirm()
            self._point("quarantine.append")
            self._destination.answer()
            if len(list(rescued(self._destination, tail))) != len(there):
                continue  # the sequence of the batch is refused: another process has copied it
            for each in batch:
                self._destination.keep(tail.into, each, tail.producer_id)
            yield len(there) + len(batch)

    def at_source(self, tail: TailCopy, by: Deadline) -> TailDigest:
        self._source.answer()
        begin = max(tail.begin, self._source.ends[tail.source][0])
        return _digest(self._source.log(tail.source, begin, tail.end), begin)

    def rescued(self, tail: TailCopy, by: Deadline) -> TailDigest:
        self._destination.answer()
        found = list(rescued(self._destination, tail))
        until = found[-1][0] + 1 if found else tail.start
        records = ((each.origin, each) for _, each in found if each.origin >= tail.begin)
        return replace(_digest(records, tail.begin), until=until)


def _digest(found: Iterable[tuple[int, Written]], begin: int) -> TailDigest:
    records = list(found)
    words = repr([(offset, each.time, each.rest) for offset, each in records])
    return TailDigest(
        records=len(records),
        bytes=sum(len(each.rest) for _, each in records),
        first=records[0][0] if records else None,
        last=records[-1][0] if records else None,
        digest=hashlib.sha256(words.encode()).hexdigest(),
        begin=begin,
    )


class MemoryReplays:
    """The port `Replays`, with the login `user`."""

    def __init__(self, cluster: RecordedCluster, user: str) -> None:
        self._cluster, self._user = cluster, user

    def may_write(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        self._cluster.answer()
        return {topic: self._cluster.may_write(topic, self._user) for topic in topics}

    def rescued(self, tail: TailCopy, by: Deadline) -> Iterator[RescuedRecord]:
        self._cluster.answer()
        for _, each in rescued(self._cluster, tail):
            yield RescuedRecord(each.origin, each.time, each.key, each.rest)

    def end(self, at: MirrorPartition, by: Deadline) -> int:
        self._cluster.answer()
        return self._cluster.ends[at][1]

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return new_producer_id(self._cluster)

    def last_of_keys(
        self,
        at: MirrorPartition,
        span: tuple[int, int],
        keys: Container[bytes],
        own_from: int,
        without: Container[int],
        by: Deadline,
    ) -> Mapping[bytes, KeyWritten]:
        self._cluster.answer()
        found: dict[bytes, KeyWritten] = {}
        for offset, each in self._cluster.log(at, *span):
            own = offset >= own_from and self._cluster.producers[at, offset] not in without
            if each.key is None or each.key not in keys or (not own and offset >= own_from):
                continue
            before = found.get(each.key)
            found[each.key] = KeyWritten(offset, each.time, each.rest, own or (before is not None and before.own))
        return found

    def replayed(self, at: MirrorPartition, start: int, producer_id: int, by: Deadline) -> Replayed:
        self._cluster.answer()
        ours = self._written_by(at, start, producer_id)
        return Replayed(len(ours), ours[-1].origin) if ours else Replayed(None, None)

    def append(
        self, tail: TailCopy, records: Sequence[RescuedRecord], producer_id: int, sequence: int, by: Deadline
    ) -> None:
        self._cluster.answer()
        if len(self._written_by(tail.source, 0, producer_id)) != sequence:
            raise OutOfOrderSequence(str(tail.source))
        for each in records:
            number = int(each.rest.partition(b":")[0])
            self._cluster.keep(tail.source, Written(number, each.key, each.time, each.offset), producer_id)

    def current(self, of: RescuedRecord, last: KeyWritten | None, now: EpochMs) -> RescuedRecord:
        raise NotImplementedError

    def _written_by(self, at: MirrorPartition, start: int, producer_id: int) -> list[Written]:
        return [
            each for offset, each in self._cluster.log(at, start) if self._cluster.producers[at, offset] == producer_id
        ]


def new_producer_id(cluster: RecordedCluster) -> ProducerId:
    """One that nobody has written with."""
    cluster.answer()
    cluster.producer_ids += 1
    return ProducerId(cluster.producer_ids)


class MemoryTransactions:
    """The port `OpenTransactions`: what coordinators know of, each with one partition."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        self._cluster.answer()
        return tuple(
            ReturnedTransaction(each.transactional_id, each.producer_id, 0, each.since, ONGOING, (each.partition,))
            for each in self._cluster.named
            if each.partition in partitions
        )

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        self._cluster.answer()
        named = self._cluster.named
        self._cluster.named = tuple(each for each in named if each.producer_id != transaction.producer_id)
        for each in set(named) - set(self._cluster.named):
            self._cluster.mark(each.partition, each.producer_id)


class MemoryDeletion:
    """The port `TopicDeletion`."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster

    def delete(self, topic: str, topic_id: str, by: Deadline) -> TanistError | None:
        self._cluster.answer()
        facts = self._cluster.topics.get(topic)
        if facts is not None and facts.topic_id == topic_id:
            self._cluster.drop(topic)
        return None


class MemorySizes:
    """The port `LogSizes`: a byte for each offset."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self._cluster = cluster

    def sizes(self, partitions: Sequence[TopicPartition], by: Deadline) -> dict[TopicPartition, int]:
        self._cluster.answer()
        ends = {at: self._cluster.ends[at] for at in partitions if at in self._cluster.ends}
        return {at: high - start for at, (start, _, high) in ends.items()}
