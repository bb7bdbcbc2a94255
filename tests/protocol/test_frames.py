"""Our four frames against kafka-python's encoders: byte for byte where we write, field by field where we read."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tanist.domain.broker_errors import NotLeader
from tanist.domain.errors import BrokerError, MalformedFrame
from tanist.domain.names import TopicPartition
from tanist.protocol.frames import (
    FetchLimits,
    FetchPosition,
    Isolation,
    correlation_id,
    fetch_request,
    parse_fetch,
    parse_produce,
    produce_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PARSERS: tuple[Callable[[memoryview], object], ...] = (parse_fetch, parse_produce)


def test_a_fetch_request_is_what_kafka_python_writes() -> None:
    positions = [
        FetchPosition("orders", 0, 2**40, 1 << 20),
        FetchPosition("orders", 7, 0, 99),
        FetchPosition("zürich", 1, 5, 1 << 20),
        FetchPosition("orders", 3, 6, 1 << 20),
    ]
    limits = FetchLimits(max_wait_ms=250, min_bytes=2, max_bytes=1 << 24, isolation=Isolation.READ_COMMITTED)
    topic = FetchRequest.FetchTopic
    theirs = FetchRequest(
        replica_id=-1,
        max_wait_ms=250,
        min_bytes=2,
        max_bytes=1 << 24,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.FetchPartition(
                        partition=p.partition,
                        current_leader_epoch=-1,
                        fetch_offset=p.offset,
                        log_start_offset=-1,
                        partition_max_bytes=p.max_bytes,
                    )
                    for p in group
                ],
            )
            for name, group in (("orders", positions[:2]), ("zürich", positions[2:3]), ("orders", positions[3:]))
        ],
        forgotten_topics_data=[],
        rack_id="",
        version=11,
    )
    theirs.with_header(correlation_id=77, client_id="tanist")
    assert fetch_request(77, "tanist", positions, limits) == bytes(theirs.encode(header=True, framed=True))


def test_a_produce_request_is_what_kafka_python_writes_around_the_very_same_batches() -> None:
    batches = [(TopicPartition(name, n), memoryview(bytes([n]) * (n + 1))) for n in range(5) for name in ("b", "ä")]
    topic = ProduceRequest.TopicProduceData
    theirs = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1234,
        topic_data=[
            topic(
                name=name,
                partition_data=[
                    topic.PartitionProduceData(index=at.partition, records=bytes(batch))
                    for at, batch in batches
                    if at.topic == name
                ],
            )
            for name in ("b", "ä")
        ],
        version=8,
    )
    theirs.with_header(correlation_id=78, client_id="tanist")
    views = produce_request(78, "tanist", batches, 1234)
    assert b"".join(views) == bytes(theirs.encode(header=True, framed=True))
    assert sum(any(view is batch for _, batch in batches) for view in views) == len(batches)


def answer(kind: Any, version: int, **fields: Any) -> bytes:
    message = kind(version=version, **fields)
    message.with_header(correlation_id=9)
    return bytes(message.encode(header=True))


def fetch_answer(rng: Random, *, error: int = 0) -> tuple[bytes, list[tuple[Any, ...]]]:
    """A random Fetch v11 answer, and what must be read from it."""
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    topics, expected = [], []
    for name in [f"t{n}-é" for n in range(rng.randrange(4))]:
        parts = []
        for n in range(rng.randrange(4)):
            aborted = [(rng.randrange(99), rng.randrange(2**40)) for _ in range(rng.randrange(3))]
            records = rng.randbytes(rng.randrange(50))
            code, high, stable, start = rng.choice([0, 6]), *(rng.randrange(2**60) for _ in range(3))
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
                )
            )
            expected.append((name, n, code, high, stable, start, tuple(aborted), records))
        topics.append(topic(topic=name, partitions=parts))
    fields = {"throttle_time_ms": 5, "error_code": error, "session_id": 0, "responses": topics}
    return answer(FetchResponse, 11, **fields), expected


def produce_answer(rng: Random) -> tuple[bytes, list[tuple[Any, ...]]]:
    topic = ProduceResponse.TopicProduceResponse
    part = topic.PartitionProduceResponse
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
                )
            )
            expected.append((name, n, code, base, time, start, message or "; ".join(said)))
        topics.append(topic(name=name, partition_responses=parts))
    return answer(ProduceResponse, 8, responses=topics, throttle_time_ms=6), expected


@pytest.mark.parametrize("seed", range(60))
def test_fetch_answers_are_read_to_the_last_field_without_copying(seed: int) -> None:
    frame, expected = fetch_answer(Random(seed))
    throttle, partitions = parse_fetch(memoryview(frame))
    assert throttle == 5
    assert [(*found[:-1], bytes(found.records)) for found in partitions] == expected
    assert all(found.records.obj is frame for found in partitions)
    assert correlation_id(memoryview(frame)) == 9


@pytest.mark.parametrize("seed", range(60))
def test_produce_answers_are_read_to_the_last_field(seed: int) -> None:
    frame, expected = produce_answer(Random(seed))
    throttle, partitions = parse_produce(memoryview(frame))
    assert throttle == 6
    assert [tuple(found) for found in partitions] == expected


def frames() -> list[tuple[Callable[[memoryview], object], bytes]]:
    return [
        (parse, make(Random(seed))[0])
        for parse, make in ((parse_fetch, fetch_answer), (parse_produce, produce_answer))
        for seed in range(12)
    ]


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


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
def test_impossible_counts_are_malformed(parse: Callable[[memoryview], object], count: int) -> None:
    head = struct.pack(">iihi", 1, 0, 0, 0) if parse is parse_fetch else struct.pack(">i", 1)
    with pytest.raises(MalformedFrame):
        parse(memoryview(head + struct.pack(">i", count) + bytes(8)))


def test_a_fetch_refused_as_a_whole_is_that_error() -> None:
    with pytest.raises(NotLeader):
        parse_fetch(memoryview(fetch_answer(Random(5), error=6)[0]))
