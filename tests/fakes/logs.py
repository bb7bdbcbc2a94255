"""Ends of partition logs, and producer ids, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tanist.domain.anchors import PlacedRecords, Walked
from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import DestinationOffset, ProducerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster

_P = TypeVar("_P", bound="TopicPartition")


class MemoryLogs:
    """The port `Logs`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, LogEnds | TanistError]:
        self._cluster.answer()
        return {at: self._end(at) for at in partitions}

    def versions(self, by: Deadline) -> Mapping[str, int]:
        self._cluster.answer()
        return {
            "Fetch": 13,
            "Produce": 13,
            "ListOffsets": 5,
            "OffsetForLeaderEpoch": 4,
            "WriteTxnMarkers": 1,
            "InitProducerId": 4,
            "TxnOffsetCommit": 3,
            "DescribeProducers": 0,
        }

    def true_ends(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, int | TanistError]:
        self._cluster.answer()
        ends = {at: self._end(at) for at in partitions}
        return {
            at: each if isinstance(each, TanistError) else each.high_watermark + self._cluster.ahead.get(at, 0)
            for at, each in ends.items()
        }

    def only_control(self, spans: Mapping[_P, tuple[int, int]], by: Deadline) -> Mapping[_P, bool | TanistError]:
        self._cluster.answer()
        return {at: self._only_control(at, *span) for at, span in spans.items()}

    def walk(self, at: TopicPartition, span: tuple[int, int], by: Deadline) -> Walked:
        self._cluster.answer()
        ends = self._end(at)
        if isinstance(ends, TanistError):
            raise ends
        if not ends.start <= span[0] <= span[1] <= ends.high_watermark:
            raise CouldNotTell(f"{at}: nothing can be read from {span[0]} up to {span[1]}")
        unseen = self._cluster.control | self._cluster.aborted
        places = (PlacedRecords(DestinationOffset(n), 1) for n in range(*span) if (at, n) not in unseen)
        return Walked(tuple(places))

    def producers(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, ProducerId | TanistError]:
        self._cluster.answer()
        return {at: self._producer(at, offset) for at, offset in offsets.items()}

    def leader_epochs(self, offsets: Mapping[_P, int], by: Deadline) -> Mapping[_P, int | TanistError]:
        self._cluster.answer()
        epoch = self._cluster.leader_epoch
        found = {at: self._producer(at, offset) for at, offset in offsets.items()}
        return {at: each if isinstance(each, TanistError) else epoch for at, each in found.items()}

    def new_producer_id(self, by: Deadline) -> ProducerId:
        self._cluster.answer()
        self._cluster.calls.append("producer id")
        self._cluster.producer_ids += 1
        return ProducerId(self._cluster.producer_ids)

    def _only_control(self, at: TopicPartition, first: int, end: int) -> bool | TanistError:
        ends = self._end(at)
        if isinstance(ends, TanistError):
            return ends
        if any((at, offset) not in self._cluster.control for offset in range(first, min(end, ends.high_watermark))):
            return False
        return end <= ends.high_watermark or CouldNotTell(f"{at}: nothing can be read yet at {ends.high_watermark}")

    def _producer(self, at: TopicPartition, offset: int) -> ProducerId | TanistError:
        ends = self._end(at)
        if isinstance(ends, TanistError):
            return ends
        if not self._cluster.may("READ", at.topic):
            return TopicAuthorizationFailed(str(at))
        if not ends.start <= offset < ends.high_watermark:
            return CouldNotTell(f"{at}: nothing can be read at {offset}")
        return ProducerId(self._cluster.producers.get((at, offset), -1))

    def _end(self, at: TopicPartition) -> LogEnds | TanistError:
        if not self._cluster.may("DESCRIBE", at.topic):
            return TopicAuthorizationFailed(str(at))
        if at not in self._cluster.ends:
            return UnknownTopicOrPartition(str(at))
        start, stable, high = self._cluster.ends[at]
        return LogEnds(start=start, last_stable=stable, high_watermark=high, observed_at=self._cluster.clock.now())
