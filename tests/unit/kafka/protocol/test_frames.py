"""Our four frames against kafka-python's encoders: byte for byte where we write, field by field where we read."""

from __future__ import annotations

import struct
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tanist.domain.broker_errors import NotLeader
from tanist.domain.errors import BrokerError, MalformedFrame
from tanist.kafka.protocol.frames import (
    BY_ID,
    BY_NAME,
    FETCH_BY_EPOCH,
    FETCH_BY_ID,
    FETCH_BY_NAME,
    FetchLimits,
    FetchPosition,
    Isolation,
    ProduceBatch,
    SessionFetch,
    correlation_id,
    fetch_request,
    parse_fetch,
    parse_produce,
    produce_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.kafka.protocol.frames import FetchAnswer, FetchVersion, ProduceVersion

VERSIONS = pytest.mark.parametrize("version", [BY_NAME, BY_ID], ids=["by name", "by id"])
FETCHES = (FETCH_BY_NAME, FETCH_BY_EPOCH, FETCH_BY_ID)
FETCH_VERSIONS = pytest.mark.parametrize("version", FETCHES, ids=["by name", "by epoch", "by id"])
TOPICS = tuple(f"t{n}-é" for n in range(4))


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\xff"))


def fetched(version: FetchVersion, frame: memoryview) -> FetchAnswer:
    """Of a fetch that asked for all of `TOPICS`."""
    called = [topic_id(name).bytes if version is FETCH_BY_ID else name for name in TOPICS]
    return parse_fetch(version, frame, dict(zip(called, TOPICS, strict=True)))


PARSERS: tuple[Callable[[memoryview], object], ...] = (
    *(partial(fetched, version) for version in FETCHES),
    partial(parse_produce, BY_NAME),
    partial(parse_produce, BY_ID),
)


@FETCH_VERSIONS
def test_a_fetch_request_is_what_kafka_python_writes(version: FetchVersion) -> None:
    orders, zurich = topic_id("orders"), topic_id("zürich")
    positions = [
        FetchPosition("orders", 0, 2**40, 1 << 20, 7, orders),
        FetchPosition("orders", 7, 0, 99, -1, orders),
        FetchPosition("zürich", 1, 5, 1 << 20, 2**30, zurich),
        FetchPosition("orders", 3, 6, 1 << 20, 0, orders),
    ]
    limits = FetchLimits(max_wait_ms=250, min_bytes=2, max_bytes=1 << 24, isolation=Isolation.READ_COMMITTED)
    topic = FetchRequest.FetchTopic
    theirs = FetchRequest(
        replica_id=-1,
        max_wait_ms=250,
        min_bytes=2,
        max_bytes=1 << 24,
        isolation_level=1,
        session_id=12,
        session_epoch=3,
        topics=[
            topic(
                topic=name,
                topic_id=topic_id(name),
                partitions=[
                    topic.FetchPartition(
                        partition=p.partition,
                        current_leader_epoch=-1,
                        fetch_offset=p.offset,
                        last_fetched_epoch=p.last_epoch,
                        log_start_offset=-1,
                        partition_max_bytes=p.max_bytes,
                    )
                    for p in group
                ],
            )
            for name, group in (("orders", positions[:2]), ("zürich", positions[2:3]), ("orders", positions[3:]))
        ],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="orders", topic_id=orders, partitions=[9])],
        rack_id="",
        version=version.number,
    )
    theirs.with_header(correlation_id=77, client_id="tanist")
    fetch = SessionFetch(12, 3, positions, [FetchPosition("orders", 9, 0, 1, -1, orders)])
    assert fetch_request(version, 77, "tanist", fetch, limits) == bytes(theirs.encode(header=True, framed=True))


@VERSIONS
def test_a_produce_request_is_what_kafka_python_writes_around_the_very_same_batches(version: ProduceVersion) -> None:
    sizes = (1, 127, 128, 70_000)
    batches = [
        ProduceBatch(name, n, memoryview(bytes(size)), topic_id(name))
        for n, size in enumerate(sizes)
        for name in ("b", "ä")
    ]
    topic = ProduceRequest.TopicProduceData
    theirs = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1234,
        topic_data=[
            topic(
                name=name,
                topic_id=topic_id(name),
                partition_data=[
                    topic.PartitionProduceData(index=each.partition, records=bytes(each.batch))
                    for each in batches
                    if each.topic == name
                ],
            )
            for name in ("b", "ä")
        ],
        version=version.number,
    )
    theirs.with_header(correlation_id=78, client_id="tanist")
    views = produce_request(version, 78, "tanist", batches, 1234)
    assert b"".join(views) == bytes(theirs.encode(header=True, framed=True))
    assert sum(any(view is each.batch for each in batches) for view in views) == len(batches)


def test_two_topics_of_one_name_are_two_topics_of_a_request() -> None:
    """A copy that was deleted and made anew, one partition of which has noticed."""
    old, new = topic_id("old"), topic_id("new")
    batches = [ProduceBatch("t", n, memoryview(b"x"), (new, old)[n % 2]) for n in range(4)]
    written = b"".join(produce_request(BY_ID, 1, "c", batches, 9))
    request = ProduceRequest.decode(written, version=BY_ID.number, header=True, framed=True)
    assert {t.topic_id: [p.index for p in t.partition_data] for t in request.topic_data} == {new: [0, 2], old: [1, 3]}


def answer(kind: Any, version: int, **fields: Any) -> bytes:
    message = kind(version=version, **fields)
    message.with_header(correlation_id=9)
    return bytes(message.encode(header=True))


def fetch_answer(version: FetchVersion, rng: Random, *, error: int = 0) -> tuple[bytes, list[tuple[Any, ...]]]:
    """A random answer, with a diverging epoch where the version can tell one, and what must be read from it."""
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    topics, expected = [], []
    for name in TOPICS[: rng.randrange(4)]:
        parts = []
        for n in range(rng.randrange(4)):
            aborted = [(rng.randrange(99), rng.randrange(2**40)) for _ in range(rng.randrange(3))]
            records = rng.randbytes(rng.randrange(50))
            code, high, stable, start = rng.choice([0, 6]), *(rng.randrange(2**60) for _ in range(3))
            diverging = (rng.randrange(99), rng.randrange(2**60)) if version.compares_epochs and n % 2 else None
            tagged = (
                {"diverging_epoch": part.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])}
                if diverging
                else {}
            )
            parts.append(
                part(
                    partition_index=n,
                    error_code=code,
                    high_watermark=high,
                    last_stable_offset=stable,
                    log_start_offset=start,
                    aborted_transactions=[part.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted]
                    or (None if rng.random() < 0.5 else []),
                    preferred_read_replica=-1,
                    records=records or rng.choice([None, b""]),
                    **tagged,
                )
            )
            expected.append((name, n, code, high, stable, start, tuple(aborted), records, diverging))
        topics.append(topic(topic=name, topic_id=topic_id(name), partitions=parts))
    fields = {"throttle_time_ms": 5, "error_code": error, "session_id": 0, "responses": topics}
    return answer(FetchResponse, version.number, **fields), expected


def produce_answer(version: ProduceVersion, rng: Random) -> tuple[bytes, list[tuple[Any, ...]]]:
    """A random answer, with a new leader where the version can tell one, and what must be read from it."""
    tagged = version is BY_ID
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
    leader = part.LeaderIdAndEpoch
    topics, expected = [], []
    for name in [f"t{n}" for n in range(rng.randrange(4))]:
        parts = []
        for n in range(rng.randrange(4)):
            code, base, time, start = rng.choice([0, 87]), *(rng.randrange(-1, 2**60) for _ in range(3))
            said = [rng.choice(["no key", "ünfit"]) for _ in range(rng.randrange(3))]
            message = rng.choice([None, "refused"])
            parts.append(
                part(
                    index=n,
                    error_code=code,
                    base_offset=base,
                    log_append_time_ms=time,
                    log_start_offset=start,
                    record_errors=[
                        part.BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=text)
                        for i, text in enumerate(said)
                    ],
                    error_message=message,
                    **({"current_leader": leader(leader_id=n, leader_epoch=3)} if tagged and n % 2 else {}),
                )
            )
            called = topic_id(name).bytes if version is BY_ID else name
            expected.append((called, n, code, base, time, start, message or "; ".join(said)))
        topics.append(topic(name=name, topic_id=topic_id(name), partition_responses=parts))
    fields: dict[str, Any] = {"responses": topics, "throttle_time_ms": 6}
    if tagged and rng.random() < 0.5:
        node = ProduceResponse.NodeEndpoint(node_id=1, host="elsewhere", port=9092, rack=None)
        fields["node_endpoints"] = [node]
    return answer(ProduceResponse, version.number, **fields), expected


@FETCH_VERSIONS
@pytest.mark.parametrize("seed", range(60))
def test_fetch_answers_are_read_to_the_last_field_without_copying(version: FetchVersion, seed: int) -> None:
    frame, expected = fetch_answer(version, Random(seed))
    answer = fetched(version, memoryview(frame))
    assert (answer.throttle_ms, answer.looked) == (5, bool(expected))
    assert [tuple(found._replace(records=bytes(found.records))) for found in answer.partitions] == expected  # type: ignore[arg-type]
    assert all(found.records.obj is frame for found in answer.partitions)
    assert correlation_id(memoryview(frame)) == 9


@VERSIONS
@pytest.mark.parametrize("seed", range(60))
def test_produce_answers_are_read_to_the_last_field(version: ProduceVersion, seed: int) -> None:
    frame, expected = produce_answer(version, Random(seed))
    throttle, partitions = parse_produce(version, memoryview(frame))
    assert throttle == 6
    assert [tuple(found) for found in partitions] == expected


def frames() -> list[tuple[Callable[[memoryview], object], bytes]]:
    makers: tuple[Callable[[Random], tuple[bytes, object]], ...] = (
        *(partial(fetch_answer, version) for version in FETCHES),
        partial(produce_answer, BY_NAME),
        partial(produce_answer, BY_ID),
    )
    return [(parse, make(Random(seed))[0]) for parse, make in zip(PARSERS, makers, strict=True) for seed in range(12)]


def test_an_answer_that_ends_anywhere_else_is_malformed_as_a_whole() -> None:
    for parse, frame in frames():
        for cut in range(len(frame)):
            with pytest.raises(MalformedFrame):
                parse(memoryview(frame)[:cut])
        with pytest.raises(MalformedFrame):
            parse(memoryview(frame + b"\0"))


def test_a_flipped_bit_is_another_answer_or_malformed_but_never_a_crash() -> None:
    for parse, frame in frames():
        damaged = bytearray(frame)
        for byte in range(len(damaged)):
            for bit in range(8):
                damaged[byte] ^= 1 << bit
                no_crash(parse, memoryview(damaged))
                damaged[byte] ^= 1 << bit


def no_crash(parse: Callable[[memoryview], object], frame: memoryview) -> None:
    try:
        parse(frame)
    except (MalformedFrame, BrokerError):
        return


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
@pytest.mark.parametrize(("parse", "head"), [(PARSERS[0], (1, 0, 0, 0)), (PARSERS[3], (1,))], ids=["fetch", "produce"])
def test_impossible_counts_are_malformed(
    parse: Callable[[memoryview], object], head: tuple[int, ...], count: int
) -> None:
    packed = struct.pack(">iihi" if len(head) > 1 else ">i", *head)
    with pytest.raises(MalformedFrame):
        parse(memoryview(packed + struct.pack(">i", count) + bytes(8)))


@pytest.mark.parametrize("count", ["00", "ffffffff0f", "ffffffffffffffffff7f", "ffffffffffffffffffff"])
@pytest.mark.parametrize("where", ["", "00"], ids=["tags", "topics"])
def test_impossible_counts_of_the_flexible_encoding_are_malformed(where: str, count: str) -> None:
    frame = struct.pack(">i", 1) + bytes.fromhex(where + count) + bytes(8)
    with pytest.raises(MalformedFrame):
        parse_produce(BY_ID, memoryview(frame))


def test_a_fetch_refused_as_a_whole_is_that_error() -> None:
    with pytest.raises(NotLeader):
        fetched(FETCH_BY_ID, memoryview(fetch_answer(FETCH_BY_ID, Random(5), error=6)[0]))


def test_an_answer_about_a_topic_that_was_not_asked_for_is_malformed() -> None:
    answers = (memoryview(fetch_answer(FETCH_BY_ID, Random(seed))[0]) for seed in range(20))
    frame = next(frame for frame in answers if fetched(FETCH_BY_ID, frame).partitions)
    with pytest.raises(MalformedFrame, match="not asked for"):
        parse_fetch(FETCH_BY_ID, frame, {})
