"""Copies with mapped offsets into three brokers that die: coordinators in each phase, replicas, and ends of logs."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as Place

from tanist.domain.fake_group import group_of
from tanist.domain.names import MirrorPartition
from tanist.domain.transactional_append import TxnEvent
from tanist.domain.writer_identity import TransactionalWriter, transactional_id_of
from tanist.fetcher.engines.transactions import owned_id
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.wire.copy_transactions import CopiedBatch, CopyTransactions
from tanist.kafka.wire.requests import End
from tanist.ports.fencing import TransactionFence
from tests.kafka.adapters.test_transactional_fencing import a_batch
from tests.kafka.fetcher.copier import SLICE
from tests.kafka.fetcher.raw import reassign
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until
from tests.kafka.fetcher.test_mapped import FIVE, committed, mapped_spec, must_be_equal, must_have, through
from tests.kafka.fetcher.test_source_history import segments
from tests.kafka.fetcher.test_writers import broken
from tests.kafka.wire.outcome import outcome
from tests.storm import proxy
from tests.storm.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.fetcher.copier import Copier

TRANSACTIONS, GROUPS = "__transaction_state", "__consumer_offsets"
ADD_PARTITIONS_TO_TXN, OFFSET_FETCH = 24, 9
GOING_ON: Final = (
    ADD_PARTITIONS_TO_TXN,
    proxy.PRODUCE,
    proxy.ADD_OFFSETS_TO_TXN,
    proxy.TXN_OFFSET_COMMIT,
    proxy.END_TXN,
)
"""What a transaction that is committed asks for, in its order."""
AFTER_A_REFUSAL: Final = (proxy.END_TXN, proxy.INIT_PRODUCER_ID, OFFSET_FETCH)
"""It is aborted, a new epoch begins, and positions are read."""


@pytest.fixture
def mapped(into_trio: Rig) -> Rig:
    into_trio.spec = mapped_spec(replace(into_trio.spec, mirror=type(into_trio.spec.mirror)(f"m-{uuid4().hex}")))
    return into_trio


def coordinator(side: RigCluster, topic: str, name: str) -> MirrorPartition:
    """The partition of `topic` whose leader is the coordinator of `name` (String.hashCode)."""
    side.router.refresh([topic], soon())
    found = 0
    for each in name:
        found = (31 * found + ord(each)) % (1 << 32)
    signed = found - (1 << 32) if found >= 1 << 31 else found
    return MirrorPartition(topic, abs(signed) % len(side.router.topics()[topic].partitions))


def move(side: RigCluster, at: MirrorPartition) -> None:
    """Another replica leads from now on."""
    before = side.leader(at)
    replicas = side.router.topics()[at.topic].partitions[at.partition].replicas
    reassign(side, at, sorted(replicas, key=lambda each: (each == before, each)))
    side.admin.elect_leaders(ElectionType.PREFERRED, [Place(at.topic, at.partition)]).result(20)
    until(lambda: side.leader(at) != before, 20)


def kill(side: RigCluster, at: MirrorPartition) -> None:
    """Its leader dies, and is back when another one leads."""
    before = side.leader(at)
    side.cluster.kill(before)
    until(lambda: side.leader(at) != before, 30)
    side.cluster.start_broker(before)


def named(copier: Copier, at: MirrorPartition, name: str) -> str:
    """Wait until a partition has this error; its reason."""
    reasons: dict[str, str] = {}

    def seen() -> bool:
        error = copier.reports()[at].error
        if error is not None:
            reasons[error.name] = error.reason
        return name in reasons

    until(seen, 20, lambda: (reasons, copier.reports()))
    return reasons[name]


@pytest.mark.parametrize("happens", [move, pytest.param(kill, marks=pytest.mark.long)])
def test_coordinators_that_are_lost_in_any_phase_neither_lose_nor_repeat(
    mapped: Rig,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[RigCluster, MirrorPartition], None],
) -> None:
    """The request of a phase is kept back until its coordinator is another broker, and then goes to the old one."""
    monkeypatch.setattr(owned_id, "ANSWER_SECONDS", 3.0)
    rig, trio = mapped, mapped.destination
    at, small = rig.create(topic_name, 3), f"{topic_name}-small"
    trio.create(small, len(AFTER_A_REFUSAL), config={"max.message.bytes": "2000"})
    takes_little = rig.source.create(small, len(AFTER_A_REFUSAL))
    with rig.copier(at) as copier:
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)  # the topics of the coordinators are there from now on
    transactions = coordinator(trio, TRANSACTIONS, transactional_id_of(rig.spec, SLICE))
    positions = coordinator(trio, GROUPS, group_of(rig.spec.mirror))

    with Proxy() as way:
        door = way.door(trio.cluster)

        def in_phase(key: int, begins: Callable[[], object]) -> None:
            held = door.hold(key)
            begins()
            assert held.wait(20), key
            happens(trio, positions if key in {proxy.TXN_OFFSET_COMMIT, OFFSET_FETCH} else transactions)
            held.release()

        def refused(each: MirrorPartition) -> None:
            rig.source.produce(at[1], FIVE)
            rig.source.produce(each, [bytes(5_000)])

        copier = rig.copier([*at, *takes_little])
        copier.destination = through(trio.cluster.endpoint(), door)
        in_phase(proxy.INIT_PRODUCER_ID, copier.__enter__)
        try:
            for key in GOING_ON:
                in_phase(key, lambda: rig.source.transaction(at[key % 3], FIVE))  # noqa: B023
                rig.copied(copier, only=at)
            for key, each in zip(AFTER_A_REFUSAL, takes_little, strict=True):
                in_phase(key, lambda: refused(each))  # noqa: B023
                assert broken(copier, each) == "RECORD_TOO_LARGE"
                rig.copied(copier, only=at)
        finally:
            copier.__exit__()
    assert must_be_equal(rig, at) == len(FIVE) * (1 + len(GOING_ON) + len(AFTER_A_REFUSAL))


@pytest.mark.long  # its short sibling tells the messages apart: tests/unit/kafka/wire/test_copy_transactions.py
def test_too_few_replicas_and_a_transaction_that_is_not_verified_are_told_apart(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers say NOT_ENOUGH_REPLICAS of both. Where a marker lacks replicas, the whole transactional id waits."""
    monkeypatch.setattr(owned_id, "ANSWER_SECONDS", 3.0)
    rig, trio = mapped, mapped.destination
    with rig.copier(rig.create(f"{topic_name}-first")) as copier:
        rig.source.produce(copier.partitions[0], FIVE)
        rig.copied(copier)
    dies = trio.leader(coordinator(trio, TRANSACTIONS, transactional_id_of(rig.spec, SLICE)))
    stays = next(each.id for each in trio.cluster.brokers if each.id != dies)
    (alone,) = trio.create(topic_name, brokers=[stays])
    all_three = [stays, *(each.id for each in trio.cluster.brokers if each.id != stays)]
    (safe,) = trio.create(f"{topic_name}-safe", brokers=all_three, config={"min.insync.replicas": "3"})
    for each in (alone, safe):
        rig.source.create(each.topic)
    with Proxy() as way:
        door = way.door(trio.cluster)
        copier = rig.copier([alone, safe])
        copier.destination = through(trio.cluster.endpoint(), door)
        with copier:
            until(lambda: len(copier.reports()) == 2, 20)
            held = door.hold(proxy.PRODUCE)
            rig.source.produce(alone, FIVE)
            assert held.wait(20)
            trio.cluster.kill(dies)
            held.release()
            named(copier, alone, "TRANSACTION_NOT_VERIFIED")
            rig.copied(copier, only=[alone])
            rig.source.produce(safe, FIVE)
            named(copier, safe, "NOT_ENOUGH_REPLICAS")
            rig.source.produce(alone, FIVE)
            assert str(safe) in named(copier, alone, "TRANSACTION_ENDING")
            trio.cluster.start_broker(dies)
            rig.copied(copier)
    must_be_equal(rig, [alone, safe])
    must_have(rig, safe, FIVE)


def lose_the_last_batches(side: RigCluster, at: MirrorPartition, count: int) -> None:
    """A power cut of the broker, after which its disk has the log of `at` without them."""
    broker = side.leader(at)
    side.cluster.kill(broker)
    (log,) = segments(side, at)
    content, begins = log.read_bytes(), [0]
    while begins[-1] < len(content):  # base offset, 8 bytes; size of what follows, 4 bytes
        begins.append(begins[-1] + 12 + int.from_bytes(content[begins[-1] + 8 : begins[-1] + 12]))
    os.truncate(log, begins[-1 - count])
    side.cluster.start_broker(broker)
    until(lambda: side.complete(at.topic, 1), 60)


@pytest.mark.long  # a broker dies; its short sibling is tests/unit/domain/test_lost_markers.py
@pytest.mark.parametrize("lost", ["marker", "records", "marker before a failover"])
def test_a_copy_that_has_lost_its_last_marker_gets_it_again_and_one_that_has_lost_more_is_named(
    mapped: Rig, topic_name: str, lost: str
) -> None:
    """The position is in another log, which has kept it. Without the marker no reader of committed records goes on."""
    rig = mapped
    (at,) = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1])
    with rig.copier([at]) as copier:
        for _ in range(3):
            rig.source.produce(at, FIVE)
            rig.copied(copier)
    end = committed(rig, at).end
    until(lambda: rig.destination.end(at, End.LOG_END) == end, 20)
    lose_the_last_batches(rig.destination, at, 2 if lost == "records" else 1)
    assert rig.destination.end(at, End.LOG_END) == end - (1 + len(FIVE) if lost == "records" else 1)
    if lost == "marker before a failover":
        writer = TransactionalWriter(transactional_id_of(rig.spec, SLICE), last=committed(rig, at))
        (fence,) = KafkaProducerFencing(rig.destination.router).fence_transactional_ids({at: writer}, soon()).values()
        assert isinstance(fence, TransactionFence)
        assert fence.end == end + 1, "a marker that commits, and one that fences"
        assert must_be_equal(rig, [at]) == 3 * len(FIVE)
        return
    with rig.copier([at]) as copier:
        if lost == "records":
            assert broken(copier, at) == "MIRROR_TRUNCATED"
            return
        rig.source.produce(at, FIVE)
        rig.copied(copier)
    assert must_be_equal(rig, [at]) == 4 * len(FIVE)
    assert committed(rig, at).end == end + len(FIVE) + 1, "the marker lies where the lost one was"


@pytest.mark.long  # a broker dies; its short sibling is tests/unit/domain/test_lost_markers.py
def test_records_of_an_aborted_transaction_that_has_lost_its_marker_are_never_committed(
    mapped: Rig, topic_name: str
) -> None:
    """Leaders end what a producer id has open, also by the marker of its next transaction."""
    rig = mapped
    (at,) = rig.source.create(topic_name)
    rig.destination.create(topic_name, brokers=[1])
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
    name = transactional_id_of(rig.spec, SLICE)
    attempt = CopyTransactions(rig.destination.router, name, group_of(rig.spec.mirror), 60_000)
    assert attempt.take_over(soon()) is TxnEvent.DONE
    assert outcome(attempt.append([CopiedBatch(at, a_batch(b"aborted"), 1)], soon())) is TxnEvent.DONE
    assert attempt.end(soon(), commit=False) is TxnEvent.DONE
    assert attempt.next_epoch(soon()) is TxnEvent.DONE
    lose_the_last_batches(rig.destination, at, 1)
    assert rig.destination.end(at, End.LAST_STABLE) == rig.destination.end(at, End.LOG_END) - 1
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
    assert must_be_equal(rig, [at]) == 2 * len(FIVE)
