"""The hot path's frames, packed and read by hand: Fetch v11 to v13, Produce v8 and v13.

Fetch v11 and Produce v8 are spoken by every broker from 2.4 to the newest; Fetch v12 from 2.7 on (it compares leader
epochs, KIP-595), Fetch v13 from 3.1 and Produce v13 from 4.1 on (topic ids, KIP-516). A request is whole, size prefix
included; an answer is what follows its size prefix. Answers are read to the last byte before anything is returned, so
that no caller acts on half of one.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.errors import MalformedFrame
from tanist.kafka.protocol.batch import MAGIC
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.encoding import CLASSIC, FLEXIBLE, I32, UNREADABLE, read_id
from tanist.kafka.protocol.old_formats import MAGIC_AT, modern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from tanist.kafka.protocol.encoding import Encoding

PRODUCE: Final = 0
FETCH: Final = 1
_CONSUMER: Final = -1
_ALL_IN_SYNC: Final = -1
_NO_EPOCH: Final = -1

_HEADER: Final = Struct(">hhih")  # api key, version, correlation id, length of client id
_FETCH_HEAD: Final = Struct(">iiiibii")  # replica, max wait, min bytes, max bytes, isolation, session id, session epoch
_FETCH_PARTITION: Final = Struct(">iiqqi")  # partition, leader epoch, offset, log start, max bytes
_FETCH_PARTITION_AFTER: Final = Struct(">iiqiqi")  # partition, leader epoch, offset, last epoch, log start, max bytes
_FETCH_ANSWER: Final = Struct(">ihi")  # throttle, error, session id
_FETCHED: Final = Struct(">ihqqq")  # partition, error, high watermark, last stable, log start
_DIVERGING, _EPOCH_END = 0, Struct(">iq")  # a tag; leader epoch, end offset
_ABORTED: Final = Struct(">qq")
_PRODUCE_HEAD: Final = Struct(">hi")  # acks, timeout
_PRODUCED: Final = Struct(">ihqqq")  # partition, error, base offset, append time, log start


class Isolation(IntEnum):
    READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class FetchPosition(NamedTuple):
    """Where to read one partition. `max_bytes` bounds its share; a first batch that is larger comes whole (KIP-74).

    `last_epoch`: the leader epoch of the batch before `offset`; a log that has another one there is not read (2.7). -1:
    not known. With a `topic_id` that topic alone is read, where the broker can tell (3.1).
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    last_epoch: int = -1
    topic_id: UUID | None = None


class SessionFetch(NamedTuple):
    """What one fetch says of its session. `epoch` 0: it begins one, and has all positions; -1: there is none."""

    session_id: int
    epoch: int
    positions: Sequence[FetchPosition]
    forgotten: Sequence[FetchPosition] = ()


class FetchLimits(NamedTuple):
    """`max_bytes` for all partitions together; the broker answers at `min_bytes`, or after `max_wait_ms`."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 << 20
    isolation: Isolation = Isolation.READ_COMMITTED


class FetchedPartition(NamedTuple):
    """`aborted`: (producer id, first offset) of aborted transactions in the range, read_committed only.

    `records` points into the receive buffer. Offsets are -1 where the broker does not know them. `diverging`: the
    largest leader epoch up to the `last_epoch` of the request that the log has, and where it ends there; set where that
    is another one, or before the offset of the request, and then nothing was read.
    """

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview
    diverging: tuple[int, int] | None = None


class FetchAnswer(NamedTuple):
    """`session_id`: 0: the broker has no session for it. In a session partitions without news are left out.

    `looked`: whether the broker has read the logs; else nothing is known of those that are left out. Of a client that
    exceeds its quota it reads nothing (`throttle_ms`).
    """

    throttle_ms: int
    partitions: list[FetchedPartition]
    session_id: int = 0
    looked: bool = True


class ProduceBatch(NamedTuple):
    """One batch for one partition. With a `topic_id` it is for that topic alone, where the broker can tell (4.1)."""

    topic: str
    partition: int
    batch: memoryview
    topic_id: UUID | None = None


class ProducedPartition(NamedTuple):
    """`topic` is its name or its id, as in the request; `message` is the broker's, or empty.

    `base_offset` is -1 with an error. `log_append_time` is -1 on a topic that keeps the producers' times, except for a
    batch that was appended before: then it is that batch's timestamp, a hint at a duplicate.
    """

    topic: str | bytes
    partition: int
    error_code: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    message: str


class ProduceAnswer(NamedTuple):
    throttle_ms: int
    partitions: list[ProducedPartition]


class ProduceVersion(NamedTuple):
    """One version of Produce, and what it calls a topic."""

    number: int
    encoding: Encoding
    topic_of: Callable[[ProduceBatch], Any]
    pack_topic: Callable[[Any], bytes]
    read_topic: Callable[[memoryview, int], tuple[str | bytes, int]]


BY_NAME: Final = ProduceVersion(8, CLASSIC, attrgetter("topic"), CLASSIC.string, CLASSIC.read_string)
BY_ID: Final = ProduceVersion(13, FLEXIBLE, attrgetter("topic_id.bytes"), bytes, read_id)
"""The broker refuses a batch for a topic that was deleted, whatever has its name now: UNKNOWN_TOPIC_ID."""


class FetchVersion(NamedTuple):
    """One version of Fetch, and what it calls a topic. `compares_epochs`: it has a `last_epoch`."""

    number: int
    encoding: Encoding
    topic_of: Callable[[FetchPosition], Any]
    pack_topic: Callable[[Any], bytes]
    read_topic: Callable[[memoryview, int], tuple[str | bytes, int]]
    compares_epochs: bool


FETCH_BY_NAME: Final = FetchVersion(11, CLASSIC, attrgetter("topic"), CLASSIC.string, CLASSIC.read_string, False)  # noqa: FBT003
FETCH_BY_EPOCH: Final = FetchVersion(12, FLEXIBLE, attrgetter("topic"), FLEXIBLE.string, FLEXIBLE.read_string, True)  # noqa: FBT003
FETCH_BY_ID: Final = FetchVersion(13, FLEXIBLE, attrgetter("topic_id.bytes"), bytes, read_id, True)  # noqa: FBT003


def fetch_request(
    version: FetchVersion, correlation_id: int, client_id: str, fetch: SessionFetch, limits: FetchLimits
) -> bytes:
    """Without a session the broker fills it in this order: rotate the positions, or the last ones starve.

    In a session the broker moves those to the end that it has answered about.
    """
    wait, least, most, isolation = limits
    encoding, end = version.encoding, version.encoding.no_tags
    return _framed(
        _head(FETCH, version.number, correlation_id, client_id),
        end,
        _FETCH_HEAD.pack(_CONSUMER, wait, least, most, isolation, fetch.session_id, fetch.epoch),
        *_topics(version, fetch.positions, _fetch_partitions),
        *_topics(version, fetch.forgotten, _forgotten_partitions),
        encoding.string(""),  # rack
        end,
    )


def _topics(
    version: FetchVersion,
    positions: Sequence[FetchPosition],
    pack: Callable[[FetchVersion, Sequence[FetchPosition]], bytes],
) -> list[bytes]:
    topics = [(topic, list(group)) for topic, group in groupby(positions, version.topic_of)]
    packed = (version.pack_topic(topic) + pack(version, group) + version.encoding.no_tags for topic, group in topics)
    return [version.encoding.count(len(topics)), *packed]


def _forgotten_partitions(version: FetchVersion, positions: Sequence[FetchPosition]) -> bytes:
    return version.encoding.count(len(positions)) + b"".join(I32.pack(each.partition) for each in positions)


def _fetch_partitions(version: FetchVersion, positions: Sequence[FetchPosition]) -> bytes:
    packed = [version.encoding.count(len(positions))]
    for _, partition, offset, size, last_epoch, _ in positions:
        if version.compares_epochs:
            packed.append(_FETCH_PARTITION_AFTER.pack(partition, _NO_EPOCH, offset, last_epoch, -1, size))
        else:
            packed.append(_FETCH_PARTITION.pack(partition, _NO_EPOCH, offset, -1, size))
        packed.append(version.encoding.no_tags)
    return b"".join(packed)


def parse_fetch(version: FetchVersion, frame: memoryview, names: Mapping[str | bytes, str]) -> FetchAnswer:
    """The partitions of an answer to `version`, in its order; records are not copied.

    `names`: of the topics that were asked for, by what the version calls them.

    Raises:
        MalformedFrame: it ends early, late, counts below zero, or tells of a topic that was not asked for.
        BrokerError: the request as a whole was refused.
    """
    encoding = version.encoding
    try:
        at = encoding.skip_tags(frame, I32.size)
        throttle, error, session_id = _FETCH_ANSWER.unpack_from(frame, at)
        found: list[FetchedPartition] = []
        topics, at = encoding.read_count(frame, at + _FETCH_ANSWER.size)
        for _ in range(topics):
            topic, at = version.read_topic(frame, at)
            if topic not in names:
                raise MalformedFrame(f"a fetch answer with topic {topic!r}, which was not asked for")
            partitions, at = encoding.read_count(frame, at)
            for _ in range(partitions):
                fetched, at = _fetched(encoding, frame, at, names[topic])
                found.append(fetched)
            at = encoding.skip_tags(frame, at)
        at = encoding.skip_tags(frame, at)
    except UNREADABLE as early:
        raise MalformedFrame(f"a fetch answer of {len(frame)} bytes ends too early") from early
    _must_end(frame, at)
    if error != NONE:
        raise error_for(error, "fetch")
    return FetchAnswer(throttle, found, session_id, looked=bool(found) or not throttle)


def _fetched(encoding: Encoding, frame: memoryview, at: int, topic: str) -> tuple[FetchedPartition, int]:
    partition, error, high, stable, start = _FETCHED.unpack_from(frame, at)
    count, at = encoding.read_size(frame, at + _FETCHED.size)
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(frame, at))
        at = encoding.skip_tags(frame, at + _ABORTED.size)
    size, begin = encoding.read_size(frame, at + I32.size)  # behind the preferred replica
    stop = begin + max(size, 0)
    tags, at = encoding.tags(frame, stop)
    diverging = _EPOCH_END.unpack_from(tags[_DIVERGING]) if _DIVERGING in tags else None
    ends, records = (high, stable, start), frame[begin:stop]
    if len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC:
        records = modern(records)
    return FetchedPartition(topic, partition, error, *ends, tuple(aborted), records, diverging), at


def produce_request(
    version: ProduceVersion,
    correlation_id: int,
    client_id: str,
    batches: Sequence[ProduceBatch],
    timeout_ms: int,
    transactional_id: str = "",
) -> list[bytes | memoryview]:
    """A Produce with acks=all as views to send one after another; the batches are not copied.

    At least one; one batch for each partition, each partition once (ProduceRequest.validateRecords). `timeout_ms` is
    how long the leader waits for the other replicas. `transactional_id`: of the transaction that all of them are in.
    """
    number, encoding, topic_of, pack_topic, _ = version
    topics: dict[Any, list[ProduceBatch]] = {}
    for each in batches:
        topics.setdefault(topic_of(each), []).append(each)
    pending = _head(PRODUCE, number, correlation_id, client_id) + encoding.no_tags
    pending += encoding.string(transactional_id) if transactional_id else encoding.null_string
    pending += _PRODUCE_HEAD.pack(_ALL_IN_SYNC, timeout_ms) + encoding.count(len(topics))
    views: list[bytes | memoryview] = []
    for topic, group in topics.items():
        pending += pack_topic(topic) + encoding.count(len(group))
        for each in group:
            views += [pending + I32.pack(each.partition) + encoding.count(len(each.batch)), each.batch]
            pending = encoding.no_tags
        pending += encoding.no_tags
    if rest := pending + encoding.no_tags:
        views.append(rest)
    views[0] = I32.pack(sum(map(len, views))) + views[0]
    return views


def parse_produce(version: ProduceVersion, frame: memoryview) -> ProduceAnswer:
    """The partitions of an answer to `version`, in its order.

    Raises:
        MalformedFrame: it ends early, late, or counts below zero.
    """
    _, encoding, _, _, read_topic = version
    found: list[ProducedPartition] = []
    try:
        topics, at = encoding.read_count(frame, encoding.skip_tags(frame, I32.size))
        for _ in range(topics):
            topic, at = read_topic(frame, at)
            partitions, at = encoding.read_count(frame, at)
            for _ in range(partitions):
                produced, at = _produced(encoding, frame, at, topic)
                found.append(produced)
            at = encoding.skip_tags(frame, at)
        throttle = I32.unpack_from(frame, at)[0]
        at = encoding.skip_tags(frame, at + I32.size)
    except UNREADABLE as early:
        raise MalformedFrame(f"a produce answer of {len(frame)} bytes ends too early") from early
    _must_end(frame, at)
    return ProduceAnswer(throttle, found)


def _produced(encoding: Encoding, frame: memoryview, at: int, topic: str | bytes) -> tuple[ProducedPartition, int]:
    partition, error, base, appended, start = _PRODUCED.unpack_from(frame, at)
    at += _PRODUCED.size
    stop = at + len(encoding.no_complaint)
    if frame[at:stop] == encoding.no_complaint:  # nearly always: the rest is slower to read
        return ProducedPartition(topic, partition, error, base, appended, start, ""), stop
    complaints, at = encoding.read_count(frame, at)
    said: list[str] = []
    for _ in range(complaints):
        complaint, at = encoding.read_string(frame, at + I32.size)
        said.append(complaint)
        at = encoding.skip_tags(frame, at)
    message, at = encoding.read_string(frame, at)
    text = message or "; ".join(said)
    return ProducedPartition(topic, partition, error, base, appended, start, text), encoding.skip_tags(frame, at)


def correlation_id(frame: memoryview) -> int:
    """The number that an answer carries first.

    Raises:
        MalformedFrame: there is none.
    """
    if len(frame) < I32.size:
        raise MalformedFrame(f"an answer of {len(frame)} bytes has no correlation id")
    number: int = I32.unpack_from(frame)[0]
    return number


def _head(key: int, version: int, correlation: int, client_id: str) -> bytes:
    name = client_id.encode()
    return _HEADER.pack(key, version, correlation, len(name)) + name


def _framed(*parts: bytes) -> bytes:
    return b"".join([I32.pack(sum(map(len, parts))), *parts])


def _must_end(frame: memoryview, at: int) -> None:
    """A length that points beyond the frame is found here too: a slice stops at the end without a word."""
    if at != len(frame):
        raise MalformedFrame(f"an answer of {len(frame)} bytes should have {at}")
