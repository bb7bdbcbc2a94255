"""A source that is killed under load is failed over at the first try, however long people take to read."""

from __future__ import annotations

import shlex
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, Producer

from tanist.domain.names import MirrorName, MirrorPartition
from tests.kafka.failover.test_real import QUICK, state
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.source_ends import SourceEnd
    from tests.kafka.failover.conftest import KafkaSide, Pair

PARTITIONS = 12
RATE = 20_000
"""Records a second, all partitions."""


def mirrored(pair: Pair, name: str) -> None:
    pair.east.topic(name, PARTITIONS)
    assert pair.east.writes(name, range(PARTITIONS), partitions=PARTITIONS)
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name)
    pair.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "200s")


@contextmanager
def busily(side: KafkaSide, topic: str) -> Iterator[dict[MirrorPartition, dict[int, bytes]]]:
    """A producer that writes at RATE until the end; what was acknowledged, by partition and offset."""
    acknowledged: dict[MirrorPartition, dict[int, bytes]] = {MirrorPartition(topic, n): {} for n in range(PARTITIONS)}
    over = threading.Event()
    thread = threading.Thread(target=_write, args=(side.client(acks="all", linger_ms="5"), topic, acknowledged, over))
    thread.start()
    try:
        yield acknowledged
    finally:
        over.set()
        thread.join(60)


def _write(
    options: dict[str, object], topic: str, kept: dict[MirrorPartition, dict[int, bytes]], over: threading.Event
) -> None:
    producer, n = Producer(options | {"message.timeout.ms": 3_000}), 0

    def told(error: object, message: object) -> None:
        if error is None:
            kept[MirrorPartition(topic, message.partition())][message.offset()] = message.value()  # type: ignore[attr-defined]

    while not over.wait(0.05):
        for _ in range(RATE // 20):
            try:
                producer.produce(topic, b"%d" % n, partition=n % PARTITIONS, on_delivery=told)
            except (BufferError, KafkaException):  # the source is fenced, and clients are told at once
                break
            n += 1
        producer.poll(0)
    producer.purge(in_flight=False)  # what is on its way may be in the log already
    producer.flush(5)


def killed_under_load(pair: Pair, name: str) -> dict[MirrorPartition, dict[int, bytes]]:
    """What the source had acknowledged, as `busily` says, when it was killed in the middle of it."""
    with busily(pair.east, name) as acknowledged:
        until(lambda: sum(map(len, acknowledged.values())) > RATE, 120)
        pair.clock.wait(5)
        pair.east.cluster.kill()
        pair.clock.wait(1)
    return acknowledged


def typed(pair: Pair, command: str) -> tuple[str, ...]:
    """What a person types who follows the message to the letter."""
    words = shlex.split(command)
    assert words[0] == "tanist"
    at = words.index("--destination")
    assert words[at + 1] == "west"
    assert pair.home.exists()
    return tuple(words[1:at] + words[at + 2 :])


def taken_over(pair: Pair, name: str, *options: str, wait: float = 0.0) -> dict[str, object]:
    """Three commands: plan, approve as it says, run. Each is done at the first try."""
    plan = pair.tanist("failover", "plan", name, "--mode", "unplanned", *options, "--json").item
    pair.clock.wait(wait)
    pair.tanist(*typed(pair, plan["approve"]), user="approver")
    pair.clock.wait(wait)
    where = ("--evidence", str(pair.home / plan["plan_hash"]), "--json")
    run = ("failover", "run", name, "--plan", plan["plan_hash"], *QUICK, *where)
    item = pair.tanist(*run).item
    assert item["status"] == "DONE"
    return dict(item) | {"plan": plan}


@pytest.mark.parametrize("wait", [10.0, *(pytest.param(each, marks=pytest.mark.long) for each in (22.5, 180.0))])
def test_a_source_killed_under_load_is_failed_over_at_the_first_try(pair: Pair, wait: float) -> None:
    """Forty commands in 501 s, five approvals and ten runs refused, and still not failed over."""
    name = f"busy-{wait:.0f}"
    pair.worker()
    mirrored(pair, name)
    acknowledged = killed_under_load(pair, name)
    try:
        found = taken_over(pair, name, wait=wait)
        assert pair.west.writes(name, range(10**9, 10**9 + PARTITIONS), partitions=PARTITIONS)
    finally:
        pair.east.cluster.start()
    plan = found["plan"]
    assert isinstance(plan, dict)
    assert plan["verdict"] in {"GO", "ACCEPT"}
    assert plan["forecast"]["rate"] > 0
    copied = {(n, offset): value for n, offset, value in pair.west.read(name, PARTITIONS)}
    (entry,) = state(pair.west).lineage(MirrorName(name))
    lost = 0
    for at, records in acknowledged.items():
        end, reserved = entry.old_ends[at.partition], entry.reserve_ends[at.partition]
        for offset, value in records.items():
            if offset < end:
                assert copied[at.partition, offset] == value
            else:
                lost += 1
                assert (at.partition, offset) not in copied, "one offset has two records"
                assert offset < reserved
    short = dict(found["may_be_reused"])  # type: ignore[call-overload]
    assert len(short) == PARTITIONS, "the budget of ten seconds does not cover all that may have come since"
    assert all("covers the first" in why for why in short.values()), short
    assert lost < plan["forecast"]["estimate_at_end"]
    until(lambda: state(pair.east).lineage(MirrorName(name)) == (entry,), 60)


def ends_of(pair: Pair, name: str) -> list[SourceEnd]:
    return [end for record in state(pair.west).source_ends(MirrorName(name)) for end in record.ends]


@pytest.mark.long  # test_last_look.py has what such a fetcher stores, the unit tests what a plan says of it
def test_a_fetcher_that_is_started_after_the_source_died_is_no_witness(pair: Pair) -> None:
    """235,048 acknowledged records became 0 offsets at risk, a complete reserve, DONE without a warning."""
    pair.dismiss()
    pair.worker("early")
    mirrored(pair, "witness")
    until(lambda: len(ends_of(pair, "witness")) == PARTITIONS, 20)
    pair.dismiss()
    until(lambda: not pair.workers["early"].alive, 10)
    pair.clock.wait(31)
    assert pair.east.writes("witness", range(1_000), partitions=PARTITIONS)
    pair.east.cluster.kill()
    try:
        pair.worker("second")
        until(lambda: all(end.silent_since is not None for end in ends_of(pair, "witness")), 60)
        plan = pair.tanist("failover", "plan", "witness", "--mode", "unplanned", "--json")
        item = plan.item
        assert item["verdict"] == "ACCEPT"
        said = {each["name"]: each["detail"] for each in item["limitations"]}
        assert "witness-0" in said["RECORDS_UNSEEN"]
        assert (item["forecast"]["final"], item["reserve"]["complete"]) == (False, [])
        text = pair.tanist("failover", "plan", "witness", "--mode", "unplanned").err
        assert "since then unknown" in text
        assert "--source-dead-since" in text
        done = taken_over(pair, "witness")
        assert len(dict(done["reserve_estimated"])) == PARTITIONS  # type: ignore[call-overload]
        checks = {
            each["name"]: each for each in pair.tanist("status", "witness", "--json", expected=None).item["checks"]
        }
        assert checks["reserves"]["verdict"] == "UNKNOWN"
        assert checks["reserves"]["reason"]
    finally:
        pair.east.cluster.start()
        pair.dismiss()


@contextmanager
def flapping(side: KafkaSide, down: float = 9.0, up: float = 8.0) -> Iterator[None]:
    """The brokers of one side freeze and thaw, again and again."""
    over = threading.Event()

    def flap() -> None:
        while not over.is_set():
            for broker in side.cluster.spec.broker_ids:
                side.cluster.pause(broker)
            over.wait(down)
            for broker in side.cluster.spec.broker_ids:
                side.cluster.unpause(broker)
            over.wait(up)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


@pytest.mark.long
def test_a_source_that_comes_and_goes_voids_no_approval(pair: Pair) -> None:
    """Nine seconds down, eight up: nobody could approve for 95 s."""
    pair.worker()
    mirrored(pair, "flapping")
    with busily(pair.east, "flapping"), flapping(pair.east):
        pair.clock.wait(4)
        plan = pair.tanist(
            "failover", "plan", "flapping", "--mode", "unplanned", "--max-loss", "10000000", "--json"
        ).item
        pair.clock.wait(10)
        pair.tanist(*typed(pair, plan["approve"]), user="approver")
        pair.clock.wait(10)
        where = ("--evidence", str(pair.home / plan["plan_hash"]), "--although-it-answers", "--json")
        run = ("failover", "run", "flapping", "--plan", plan["plan_hash"], *QUICK, *where)
        assert pair.tanist(*run).item["status"] == "DONE"
    assert pair.west.writes("flapping", range(PARTITIONS), partitions=PARTITIONS)
