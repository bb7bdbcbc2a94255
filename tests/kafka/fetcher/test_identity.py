"""A copy is the same log: bytes, offsets, times, and what readers may see of transactions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tanist.domain import copying
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.raw import forget_gaps
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Producer

    from tests.kafka.fetcher.rig import Rig

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FAR_FUTURE = 4_102_444_800_000
NEVER_TOO_NEW = str(2**63 - 1)
HEADERS = [("h", b"1"), ("h", None), ("ü", b"\xff")]


def odd_records(rng: random.Random) -> Iterator[dict[str, object]]:
    """Whatever a record can be."""
    yield {"value": None, "key": b"tombstone"}
    yield {"value": b"", "key": b""}
    yield {"value": None}
    yield {"value": b"old", "timestamp": 1}
    yield {"value": b"future", "timestamp": FAR_FUTURE}
    yield {"value": b"headers", "headers": HEADERS}
    yield {"value": rng.randbytes(200_000), "key": b"large"}
    for n in range(300):
        yield {"value": rng.randbytes(rng.randrange(300)), "key": b"%d" % (n % 7)}


@pytest.mark.parametrize("partitions", [1, 8])
def test_no_byte_no_offset_and_no_time_of_a_record_changes(rig: Rig, topic_name: str, partitions: int) -> None:
    at = rig.create(topic_name, partitions, message_timestamp_after_max_ms=NEVER_TOO_NEW)
    empty = rig.create(f"{topic_name}-empty", partitions)
    rng = random.Random(partitions)
    with rig.copier([*at, *empty]) as copier:
        for codec in CODECS:
            producer = rig.source.producer(compression_type=codec)
            for n, record in enumerate(odd_records(rng)):
                producer.produce(topic_name, partition=n % partitions, **record)  # type: ignore[arg-type]
            assert producer.flush(20) == 0
        rig.copied(copier)
    assert rig.identical([*at, *empty]) == ""
    assert sum(rig.source.ends(at, End.HIGH_WATERMARK).values()) == 307 * len(CODECS)


def interleave(producers: list[Producer], topic: str, rng: random.Random, rounds: int) -> None:
    """Open transactions overlap; some are empty, a third is aborted, some records are nobody's."""
    open_since: dict[int, int] = {}
    for turn in range(rounds):
        n = rng.randrange(len(producers))
        producer = producers[n]
        if n not in open_since:
            producer.begin_transaction()
            open_since[n] = turn
        for _ in range(rng.randrange(4)):
            producer.produce(topic, b"%d/%d" % (n, turn), key=b"%d" % n, partition=0)
        producer.flush(20)
        if rng.random() < 0.5:
            del open_since[n]
            producer.abort_transaction(20) if rng.random() < 0.33 else producer.commit_transaction(20)
    for n in open_since:
        producers[n].commit_transaction(20)


def transactional(rig: Rig, topic: str, count: int = 3) -> list[Producer]:
    producers = [rig.source.producer(transactional_id=f"{topic}-{n}", linger_ms=0) for n in range(count)]
    for producer in producers:
        producer.init_transactions(20)
    return producers


@pytest.mark.parametrize("rule", ["on", "off"])
def test_transactions_leave_their_offsets_and_nothing_else(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Off: aborted data is copied like any other."""
    if rule == "off":
        real = copying.decide
        for room in ("decisions", "evidence"):
            monkeypatch.setattr(
                f"tanist.fetcher.engines.batches.{room}.decide",
                lambda at, batches, _, ends, **how: real(at, batches, [], ends, **how),
            )
    at = rig.create(topic_name)
    with rig.copier(at) as copier:
        interleave(transactional(rig, topic_name), topic_name, random.Random(4), 80)
        rig.copied(copier)
    assert bool(rig.identical(at)) == (rule == "off")
    assert rig.offsets(at[0]).runs == ()


def test_a_hanging_transaction_holds_the_copy_at_the_last_stable_offset_and_no_longer(
    rig: Rig, topic_name: str
) -> None:
    at = rig.create(topic_name)
    hanging, fast, _ = transactional(rig, topic_name)
    with rig.copier(at) as copier:
        fast.begin_transaction()
        fast.produce(topic_name, b"before")
        fast.commit_transaction(20)
        rig.copied(copier)
        hanging.begin_transaction()
        hanging.produce(topic_name, b"hanging")
        hanging.flush(20)
        rig.source.produce(at[0], [b"later"])
        rig.copied(copier, hanging=True)
        until(lambda: copier.reports()[at[0]].source_high_watermark == 4, 20)
        report = copier.reports()[at[0]]
        assert (report.position, report.source_last_stable, report.end) == (2, 2, 2)
        hanging.abort_transaction(20)
        rig.copied(copier)
    assert rig.identical(at) == ""
    assert [row.value for row in rig.read(at)[1][at[0]]] == [b"before", b"later"]


@pytest.mark.parametrize("rule", ["on", "off"])
def test_offsets_of_markers_are_filled_or_records_move(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Off: nothing is filled."""
    if rule == "off":
        forget_gaps(monkeypatch)
    at = rig.create(topic_name)
    for n in range(3):
        rig.source.transaction(at[0], [b"%d" % n] * 2, commit=n != 1)
    rig.source.produce(at[0], [b"last"])
    with rig.copier(at) as copier:
        if rule == "on":
            rig.copied(copier)
        else:
            until(lambda: rig.destination.end(at[0]) >= 5, 20, copier.reports)
    assert bool(rig.identical(at)) == (rule == "off")
