"""The hot path's four frames, packed and read by hand: Fetch v11 and Produce v8, the last versions without varints.

Both are spoken by every broker from 2.3 to the newest. A request is whole, size prefix included; an answer is what
follows its size prefix. Answers are read to the last byte before anything is returned, so nobody acts on half of one.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import MalformedFrame
from tanist.protocol.codes import NONE, error_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import TopicPartition

_FETCH, _FETCH_VERSION = 1, 11
_PRODUCE, _PRODUCE_VERSION = 0, 8
_CONSUMER: Final = -1
_ALL_IN_SYNC: Final = -1
_NO_EPOCH: Final = -1

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_HEADER: Final = Struct(">hhih")  # api key, version, correlation id, length of client id
_FETCH_HEAD: Final = Struct(">iiiibii")  # replica, max wait, min bytes, max bytes, isolation, session id, session epoch
_FETCH_PARTITION: Final = Struct(">iiqqi")  # partition, leader epoch, offset, log start, max bytes
_FETCH_TAIL: Final = Struct(">ih")  # forgotten topics, rack
_FETCH_ANSWER: Final = Struct(">iihii")  # correlation id, throttle, error, session id, topics
_FETCHED: Final = Struct(">ihqqqi")  # partition, error, high watermark, last stable, log start, aborted
_ABORTED: Final = Struct(">qq")
_REPLICA_AND_SIZE: Final = Struct(">ii")
_PRODUCE_HEAD: Final = Struct(">hhii")  # transactional id, acks, timeout, topics
_PRODUCE_PARTITION: Final = Struct(">ii")
_PRODUCED: Final = Struct(">ihqqqi")  # partition, error, base offset, append time, log start, record errors


class Isolation(IntEnum):
    READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class FetchPosition(NamedTuple):
    """Where to read one partition. `max_bytes` bounds its share; a first batch that is larger comes whole (KIP-74)."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


class FetchLimits(NamedTuple):
    """`max_bytes` for all partitions together; the broker answers at `min_bytes`, or after `max_wait_ms`."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 << 20
    isolation: Isolation = Isolation.READ_COMMITTED


class FetchedPartition(NamedTuple):
    """`aborted`: (producer id, first offset) of aborted transactions in the range, read_committed only.

    `records` points into the receive buffer. Offsets are -1 where the broker does not know them.
    """

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview


class FetchAnswer(NamedTuple):
    throttle_ms: int
    partitions: list[FetchedPartition]


class ProducedPartition(NamedTuple):
    """`base_offset` is -1 with an error; `message` is the broker's, or empty.

    `log_append_time` is -1 on a topic that keeps the producers' times, except for a batch that was appended before:
    then it is that batch's timestamp, a hint at a duplicate.
    """

    topic: str
    partition: int
    error_code: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str


class ProduceAnswer(NamedTuple):
    throttle_ms: int
    partitions: list[ProducedPartition]


def fetch_request(
    correlation_id: int, client_id: str, positions: Sequence[FetchPosition], limits: FetchLimits
) -> bytes:
    """A Fetch v11 without a session. The broker fills it in this order: rotate them, or the last ones starve."""
    wait, least, most, isolation = limits
    topics = [_topic(name) + _fetch_partitions(list(group)) for name, group in groupby(positions, attrgetter("topic"))]
    return _framed(
        _head(_FETCH, _FETCH_VERSION, correlation_id, client_id),
        _FETCH_HEAD.pack(_CONSUMER, wait, least, most, isolation, 0, _NO_EPOCH),
        _I32.pack(len(topics)),
        *topics,
        _FETCH_TAIL.pack(0, 0),
    )


def _fetch_partitions(positions: Sequence[FetchPosition]) -> bytes:
    pack = _FETCH_PARTITION.pack
    packed = [pack(partition, _NO_EPOCH, offset, -1, size) for _, partition, offset, size in positions]
    return b"".join([_I32.pack(len(packed)), *packed])


def parse_fetch(frame: memoryview) -> FetchAnswer:
    """The partitions of a Fetch v11 answer, in its order; records are not copied.

    Raises:
        MalformedFrame: it ends early, late, or counts below zero.
        BrokerError: the request as a whole was refused.
    """
    try:
        _, throttle, error, _, topics = _FETCH_ANSWER.unpack_from(frame)
        at, found = _FETCH_ANSWER.size, list[FetchedPartition]()
        for _ in range(_count(topics)):
            topic, at = _string(frame, at)
            partitions, at = _array(frame, at)
            for _ in range(partitions):
                fetched, at = _fetched(frame, at, topic)
                found.append(fetched)
    except StructError as early:
        raise MalformedFrame(f"a fetch answer of {len(frame)} bytes ends too early") from early
    _must_end(frame, at)
    if error != NONE:
        raise error_for(error, "fetch")
    return FetchAnswer(throttle, found)


def _fetched(frame: memoryview, at: int, topic: str) -> tuple[FetchedPartition, int]:
    partition, error, high, stable, start, aborted_count = _FETCHED.unpack_from(frame, at)
    at += _FETCHED.size
    aborted: tuple[tuple[int, int], ...] = ()
    if aborted_count > 0:
        stop = at + _ABORTED.size * aborted_count
        aborted = tuple(_ABORTED.iter_unpack(frame[at:stop]))
        at = stop
    _, size = _REPLICA_AND_SIZE.unpack_from(frame, at)
    at += _REPLICA_AND_SIZE.size
    stop = at + max(size, 0)
    return FetchedPartition(topic, partition, error, high, stable, start, aborted, frame[at:stop]), stop


def produce_request(
    correlation_id: int, client_id: str, batches: Sequence[tuple[TopicPartition, memoryview]], timeout_ms: int
) -> list[bytes | memoryview]:
    """A Produce v8 with acks=all as views to send one after another; the batches are not copied.

    At least one; one batch for each partition, each partition once (ProduceRequest.validateRecords). `timeout_ms` is
    how long the leader waits for the other replicas.
    """
    by_topic = sorted(batches, key=_topic_of)
    topics = [(name, list(group)) for name, group in groupby(by_topic, _topic_of)]
    head = _head(_PRODUCE, _PRODUCE_VERSION, correlation_id, client_id)
    pending = head + _PRODUCE_HEAD.pack(-1, _ALL_IN_SYNC, timeout_ms, len(topics))
    views: list[bytes | memoryview] = []
    for name, group in topics:
        pending += _topic(name) + _I32.pack(len(group))
        for to, batch in group:
            views += [pending + _PRODUCE_PARTITION.pack(to.partition, len(batch)), batch]
            pending = b""
    views[0] = _I32.pack(sum(map(len, views))) + views[0]
    return views


def parse_produce(frame: memoryview) -> ProduceAnswer:
    """The partitions of a Produce v8 answer, in its order.

    Raises:
        MalformedFrame: it ends early, late, or counts below zero.
    """
    found: list[ProducedPartition] = []
    try:
        topics, at = _array(frame, _I32.size)
        for _ in range(topics):
            topic, at = _string(frame, at)
            partitions, at = _array(frame, at)
            for _ in range(partitions):
                produced, at = _produced(frame, at, topic)
                found.append(produced)
        throttle = _I32.unpack_from(frame, at)[0]
    except StructError as early:
        raise MalformedFrame(f"a produce answer of {len(frame)} bytes ends too early") from early
    _must_end(frame, at + _I32.size)
    return ProduceAnswer(throttle, found)


def _produced(frame: memoryview, at: int, topic: str) -> tuple[ProducedPartition, int]:
    partition, error, base, appended, start, complaints = _PRODUCED.unpack_from(frame, at)
    at += _PRODUCED.size
    said: list[str] = []
    for _ in range(_count(complaints)):
        complaint, at = _string(frame, at + _I32.size)
        said.append(complaint)
    message, at = _string(frame, at)
    text = message or "; ".join(said)
    return ProducedPartition(topic, partition, error, base, appended, start, text), at


def correlation_id(frame: memoryview) -> int:
    """The number that an answer carries first.

    Raises:
        MalformedFrame: there is none.
    """
    if len(frame) < _I32.size:
        raise MalformedFrame(f"an answer of {len(frame)} bytes has no correlation id")
    number: int = _I32.unpack_from(frame)[0]
    return number


def _topic_of(item: tuple[TopicPartition, memoryview]) -> str:
    return item[0].topic


def _head(key: int, version: int, correlation: int, client_id: str) -> bytes:
    name = client_id.encode()
    return _HEADER.pack(key, version, correlation, len(name)) + name


def _topic(name: str) -> bytes:
    text = name.encode()
    return _I16.pack(len(text)) + text


def _framed(*parts: bytes) -> bytes:
    return b"".join([_I32.pack(sum(map(len, parts))), *parts])


def _string(frame: memoryview, at: int) -> tuple[str, int]:
    """A nullable string; null reads as empty."""
    length: int = _I16.unpack_from(frame, at)[0]
    stop = at + _I16.size + max(length, 0)
    try:
        return str(frame[at + _I16.size : stop], "utf-8"), stop
    except UnicodeDecodeError as broken:
        raise MalformedFrame(f"a name at byte {at} is not UTF-8") from broken


def _array(frame: memoryview, at: int) -> tuple[int, int]:
    return _count(_I32.unpack_from(frame, at)[0]), at + _I32.size


def _count(number: int) -> int:
    if number < 0:
        raise MalformedFrame(f"a list of {number} entries")
    return number


def _must_end(frame: memoryview, at: int) -> None:
    """A length that points beyond the frame is found here too: a slice stops at the end without a word."""
    if at != len(frame):
        raise MalformedFrame(f"an answer of {len(frame)} bytes should have {at}")
