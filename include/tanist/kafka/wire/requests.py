"""What we ask of partitions, many in one request; every partition has its own answer or error (see `leaders`)."""

from __future__ import annotations

import time
from collections import defaultdict
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from tanist.domain.errors import MalformedFrame, TanistError
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import ProducerId, TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import FetchedPartition, FetchLimits, FetchPosition, Isolation, ProduceBatch
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Appends, Fetches
from tanist.kafka.wire.leaders import Answers, ask_leaders, by_topic, each_partition, result
from tanist.kafka.wire.messages import (
    DeleteRecordsRequest,
    DescribeProducersRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    WriteTxnMarkersRequest,
)
from tanist.kafka.wire.router import describe_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")

LIST_OFFSETS: Final = (4, 5)
"""The lowest and the highest version of this request that we speak."""
LEADER_EPOCHS: Final = (3, 4)
WRITE_TXN_MARKERS: Final = (1, 1)
DESCRIBE_PRODUCERS: Final = (0, 0)
_NOT_YET: Final = (CoordinatorLoading, CoordinatorNotAvailable, NotCoordinator, ConcurrentTransactions)
_PAUSE_SECONDS: Final = 0.1
_NO_EPOCH: Final = -1
_CONSUMER: Final = -1
_DEBUGGER: Final = -2  # FetchRequest.DEBUGGING_REPLICA_ID: sees the log to its very end


class End(Enum):
    """Which offset of a log is asked for: (timestamp, isolation level, replica id) of ListOffsets."""

    EARLIEST = (-2, Isolation.READ_UNCOMMITTED, _CONSUMER)
    HIGH_WATERMARK = (-1, Isolation.READ_UNCOMMITTED, _CONSUMER)
    LAST_STABLE = (-1, Isolation.READ_COMMITTED, _CONSUMER)
    LOG_END = (-1, Isolation.READ_UNCOMMITTED, _DEBUGGER)
    """The leader's true end, also above the high watermark. A follower would answer it too: see `list_offsets`."""


class Markers(NamedTuple):
    """One ABORT marker for each of `coordinator_epochs`, in that order, on one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epochs: Sequence[int]


class ActiveProducer(NamedTuple):
    """`last_sequence` is -1 after markers only; `last_timestamp` in ms; `transaction_start` is -1 if none is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int


class EpochEnd(NamedTuple):
    """The largest leader epoch not above the one asked for, and where it ends; both -1 if there is none."""

    leader_epoch: int
    end_offset: int


def topic_ids(router: Router, partitions: Iterable[_P], by: Deadline) -> Answers[_P, UUID | None]:
    """Which topic each leader has under that name now; None below Kafka 2.8."""
    return ask_leaders(router, dict.fromkeys(partitions), by, _topic_ids)


def _topic_ids(
    connection: Connection, partitions: Mapping[TopicPartition, None], by: Deadline
) -> Answers[TopicPartition, UUID | None]:
    found = describe_topics(connection, sorted({at.topic for at in partitions}), by)
    return {at: found[at.topic].error or found[at.topic].topic_id for at in partitions if at.topic in found}


def list_offsets(router: Router, ends: Mapping[_P, End], by: Deadline) -> Answers[_P, int]:
    """One offset of each log. OffsetNotAvailable (78) from a new leader means: wait, ask again.

    Followers answer a debugger as well, with an end of their own. Only the leader of an epoch knows no newer one and
    is the one that metadata names for it, so the epoch goes along: who has another one refuses.
    """
    answers: Answers[_P, int] = {}
    for end in End:
        asked = {at: end for at, wanted in ends.items() if wanted is end}
        if asked:
            answers |= ask_leaders(router, asked, by, partial(_list_offsets, router, end))
    return answers


def readable_ends(router: Router, partitions: Collection[_P], by: Deadline) -> Answers[_P, LogEnds]:
    """Three requests to each leader, in the order in which the answers can only grow, whatever happens meanwhile."""
    return ask_leaders(router, dict.fromkeys(partitions), by, partial(_readable_ends, router))


def _readable_ends(
    router: Router, connection: Connection, partitions: Mapping[TopicPartition, None], by: Deadline
) -> Answers[TopicPartition, LogEnds]:
    order = (End.EARLIEST, End.LAST_STABLE, End.HIGH_WATERMARK)
    answers = starts, stable, high = [_list_offsets(router, end, connection, partitions, by) for end in order]
    return {at: _readable(starts[at], stable[at], high[at]) for at in partitions if all(at in each for each in answers)}


def _readable(start: int | TanistError, stable: int | TanistError, high: int | TanistError) -> LogEnds | TanistError:
    if isinstance(start, TanistError):
        return start
    if isinstance(stable, TanistError):
        return stable
    return high if isinstance(high, TanistError) else LogEnds(start=start, last_stable=stable, high_watermark=high)


def first_since(router: Router, times: Mapping[_P, int], by: Deadline) -> Answers[_P, int]:
    """The offset of the first record of a time (ms) or later, below the last stable offset; -1: there is none.

    The broker counts markers as records, by their own time. -1 may also mean that a segment has only deleted ones of
    that time (UnifiedLog.fetchOffsetByTimestamp looks into one segment).

    Raises:
        ValueError: a time below 0. -1 and -2 would mean the end and the start of the log.
    """
    if bad := {str(at): time for at, time in times.items() if time < 0}:
        raise ValueError(f"no times to look for: {bad}")
    return ask_leaders(router, times, by, partial(_offsets_at, router, Isolation.READ_COMMITTED, _CONSUMER))


def _list_offsets(
    router: Router, end: End, connection: Connection, partitions: Iterable[TopicPartition], by: Deadline
) -> Answers[TopicPartition, int]:
    timestamp, isolation, replica = end.value
    return _offsets_at(router, isolation, replica, connection, dict.fromkeys(partitions, timestamp), by)


def _offsets_at(
    router: Router,
    isolation: Isolation,
    replica: int,
    connection: Connection,
    times: Mapping[TopicPartition, int],
    by: Deadline,
) -> Answers[TopicPartition, int]:
    kind = ListOffsetsRequest.ListOffsetsTopic
    part = cache(kind.ListOffsetsPartition)  # many partitions are asked the same; a message takes long to be made
    asked = defaultdict[str, list[Any]](list)
    for at, timestamp in times.items():
        epoch = router.leader_epoch(at) if replica == _DEBUGGER else _NO_EPOCH
        asked[at.topic].append(part(partition_index=at.partition, current_leader_epoch=epoch, timestamp=timestamp))
    topics = [kind(name=topic, partitions=partitions) for topic, partitions in asked.items()]
    version = connection.version(ListOffsetsRequest, *LIST_OFFSETS)
    request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics, version=version)
    answer = connection.call(request, by)
    return {at: result(each, "offsets of", at, each.offset) for at, each in each_partition(answer.topics)}


def init_producer_id(router: Router, by: Deadline) -> ProducerId:
    """A new producer id of its own, epoch 0. A coordinator that is not ready yet is asked again until the deadline.

    Raises:
        ClusterAuthorizationFailed: IDEMPOTENT_WRITE is missing. CoordinatorLoading and the like: until the deadline.
        BrokerError: whatever else; an answer without an id is an error too, for id -1 switches every check off.
    """
    while True:
        connection = router.any_connection(by)
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
            version=connection.version(InitProducerIdRequest, 1, 4),
        )
        answer = connection.call(request, by)
        if answer.error_code == NONE:
            if answer.producer_id < 0:
                raise MalformedFrame(f"{connection.peer}: producer id {answer.producer_id} is not valid")
            return ProducerId(answer.producer_id)
        error = error_for(answer.error_code, f"{connection.peer}: a producer id")
        if not isinstance(error, _NOT_YET) or by.left(time.monotonic()) == 0:
            raise error
        router.pause(_PAUSE_SECONDS, by)


def write_markers(router: Router, markers: Mapping[_P, Markers], by: Deadline) -> Answers[_P, None]:
    """Append abort markers. None says only that no entry was refused: count them by the committed offsets.

    The answer has one error for all entries of a producer id and partition, so a refused one may hide (`broker facts`).
    After ConnectionLost or TimedOut any number of them may have been appended, or may still be.
    """
    return ask_leaders(router, markers, by, _write_markers, again=False)


def _write_markers(
    connection: Connection, markers: Mapping[TopicPartition, Markers], by: Deadline
) -> Answers[TopicPartition, None]:
    version = connection.version(WriteTxnMarkersRequest, *WRITE_TXN_MARKERS)
    answer = connection.call(WriteTxnMarkersRequest(markers=_entries(markers), version=version), by)
    answers: Answers[TopicPartition, None] = {}
    for of_id in answer.markers:
        for at, each in each_partition(of_id.topics):
            if of_id.producer_id == markers[at].producer_id:
                answers[at] = result(each, "markers on", at, None)
    return answers


def _entries(markers: Mapping[TopicPartition, Markers]) -> list[Any]:
    """Partitions that get one marker, the same one, share an entry: the broker appends to all of them at once."""
    shared: defaultdict[tuple[int, int, int, tuple[TopicPartition, int] | None], list[TopicPartition]] = defaultdict(
        list
    )
    for at, wanted in markers.items():
        several = len(wanted.coordinator_epochs) > 1
        for place, epoch in enumerate(wanted.coordinator_epochs):
            own = (at, place) if several else None
            shared[wanted.producer_id, wanted.producer_epoch, epoch, own].append(at)
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    return [
        kind(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[
                kind.WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions)
            ],
            coordinator_epoch=epoch,
        )
        for (producer_id, producer_epoch, epoch, _), partitions in shared.items()
    ]


def describe_producers(
    router: Router, partitions: Iterable[_P], by: Deadline
) -> Answers[_P, tuple[ActiveProducer, ...]]:
    """Who the leader remembers as a writer. It shows what is not committed yet: never a checkpoint."""
    return ask_leaders(router, dict.fromkeys(partitions), by, _describe_producers)


def _describe_producers(
    connection: Connection, partitions: Mapping[TopicPartition, None], by: Deadline
) -> Answers[TopicPartition, tuple[ActiveProducer, ...]]:
    kind = DescribeProducersRequest.TopicRequest
    topics = [kind(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(partitions)]
    version = connection.version(DescribeProducersRequest, *DESCRIBE_PRODUCERS)
    answer = connection.call(DescribeProducersRequest(topics=topics, version=version), by)
    return {
        at: result(each, "producers of", at, tuple(map(_producer, each.active_producers or ())))
        for at, each in each_partition(answer.topics)
    }


def _producer(state: Any) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset,
    )


def delete_records(router: Router, offsets: Mapping[_P, int], by: Deadline) -> Answers[_P, int]:
    """Move the start of logs up to a named offset. The answer is the new start.

    Raises:
        ValueError: an offset below 0. -1 would mean "all of it", and nobody here may say that by accident.
    """
    if bad := {str(at): offset for at, offset in offsets.items() if offset < 0}:
        raise ValueError(f"no offsets to delete to: {bad}")
    return ask_leaders(router, offsets, by, _delete_records)


def _delete_records(
    connection: Connection, offsets: Mapping[TopicPartition, int], by: Deadline
) -> Answers[TopicPartition, int]:
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    part = kind.DeleteRecordsPartition
    topics = [
        kind(
            name=topic, partitions=[part(partition_index=n, offset=offsets[TopicPartition(topic, n)]) for n in numbers]
        )
        for topic, numbers in by_topic(offsets)
    ]
    version = connection.version(DeleteRecordsRequest, 1, 2)
    answer = connection.call(DeleteRecordsRequest(topics=topics, timeout_ms=left_ms(by), version=version), by)
    return {
        at: result(each, "deleting records of", at, each.low_watermark) for at, each in each_partition(answer.topics)
    }


def offset_for_leader_epoch(router: Router, epochs: Mapping[_P, int], by: Deadline) -> Answers[_P, EpochEnd]:
    """Where a leader epoch ends in each log (KIP-101, KIP-320)."""
    return ask_leaders(router, epochs, by, _offset_for_leader_epoch)


def _offset_for_leader_epoch(
    connection: Connection, epochs: Mapping[TopicPartition, int], by: Deadline
) -> Answers[TopicPartition, EpochEnd]:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = kind.OffsetForLeaderPartition
    topics = [
        kind(
            topic=topic,
            partitions=[
                part(partition=n, current_leader_epoch=_NO_EPOCH, leader_epoch=epochs[TopicPartition(topic, n)])
                for n in numbers
            ],
        )
        for topic, numbers in by_topic(epochs)
    ]
    version = connection.version(OffsetForLeaderEpochRequest, *LEADER_EPOCHS)
    answer = connection.call(OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics, version=version), by)
    return {
        at: result(each, "leader epochs of", at, EpochEnd(each.leader_epoch, each.end_offset))
        for at, each in each_partition(answer.topics, "topic", "partition")
    }


def fetch(
    router: Router,
    offsets: Mapping[_P, int],
    by: Deadline,
    limits: FetchLimits = FetchLimits(max_wait_ms=0),  # noqa: B008  # frozen
    partition_max_bytes: int = 1 << 20,
) -> Answers[_P, FetchedPartition]:
    """Raw batches from each offset on, once. Memory is the answer's own: it stays valid. Not for the copy path."""

    def ask(
        connection: Connection, at: Mapping[TopicPartition, int], by: Deadline
    ) -> Answers[TopicPartition, FetchedPartition]:
        positions = [FetchPosition(p.topic, p.partition, offset, partition_max_bytes) for p, offset in at.items()]
        pipeline = Fetches(connection)
        pipeline.post(positions, limits, by)
        try:
            answer = pipeline.receive(ReceiveBuffer(), by)
        except TanistError:
            connection.close()  # the answer may still come, and would be taken for another's
            raise
        found = {TopicPartition(each.topic, each.partition): each for each in answer.partitions}
        return {p: result(each, "records of", f"{p} from {at[p]} on", each) for p, each in found.items()}

    return ask_leaders(router, offsets, by, ask)


def append(router: Router, batches: Mapping[_P, bytearray], by: Deadline) -> Answers[_P, int]:
    """One batch to each partition, in all replicas in sync; where it begins, or began when it came before.

    Not for the copy path. After ConnectionLost or TimedOut it may have been appended, or may still be.
    """

    def ask(
        connection: Connection, at: Mapping[TopicPartition, bytearray], by: Deadline
    ) -> Answers[TopicPartition, int]:
        pipeline = Appends(connection, left_ms(by))
        pipeline.post([ProduceBatch(p.topic, p.partition, memoryview(batch)) for p, batch in at.items()], by)
        try:
            answer = pipeline.collect(by)
        except TanistError:
            connection.close()  # the answer may still come, and would be taken for another's
            raise
        found = {TopicPartition(str(each.topic), each.partition): each for each in answer.partitions}
        return {p: result(each, "a record for", p, each.base_offset) for p, each in found.items()}

    return ask_leaders(router, batches, by, ask, again=False)


def left_ms(by: Deadline) -> int:
    """What is left until a deadline as a request names it: whole milliseconds, at least 1."""
    return max(1, int(by.left(time.monotonic()) * 1000))
