"""What can go wrong under a mirror with mapped offsets, between real brokers: each has a name, and stops no other."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.cimpl import NewPartitions

from tanist.domain.fake_group import group_of
from tanist.domain.names import MirrorPartition
from tanist.domain.records import SmallBatches
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, until
from tests.kafka.fetcher.test_mapped import FIVE, committed, mapped_spec, must_be_equal, must_have, rewind
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.fetcher.copier import Copier

LONG_AGO_MS: Final = 1_000_000


@pytest.fixture
def mapped(sides: tuple[RigCluster, RigCluster]) -> Rig:
    """A mirror with mapped offsets between two brokers, with a group of positions of its own."""
    rig = Rig(*sides)
    rig.spec = mapped_spec(replace(rig.spec, mirror=type(rig.spec.mirror)(f"m-{uuid4().hex}")))
    return rig


def error_of(copier: Copier, at: MirrorPartition) -> str:
    """The name of what is reported of a partition now; empty: nothing."""
    report = copier.reports().get(at)
    return report.error.name if report is not None and report.error is not None else ""


def test_a_record_older_than_the_copy_takes_fails_alone(mapped: Rig, topic_name: str) -> None:
    """INVALID_TIMESTAMP: the partition is named, what is before it is copied, the others of its transaction go on."""
    rig = mapped
    rig.spec = replace(rig.spec, merge_small_batches=SmallBatches.OFF)  # one refused record refuses its whole batch
    rig.destination.create(topic_name, 2, config={"message.timestamp.before.max.ms": "3600000"})
    at = rig.source.create(topic_name, 2)
    rig.source.produce(at[0], [b"now"])
    rig.source.produce(at[1], FIVE)
    producer = rig.source.producer()
    producer.produce(topic_name, b"old", partition=0, timestamp=LONG_AGO_MS)
    assert producer.flush(20) == 0
    rig.source.produce(at[0], [b"behind"])
    with rig.copier(at) as copier:
        assert broken(copier, at[0]) == "RECORD_REFUSED"
        why = copier.reports()[at[0]].error
        assert why is not None
        assert str(at[0]) in why.reason
        rig.source.produce(at[1], FIVE)
        rig.copied(copier, only=[at[1]])
    must_be_equal(rig, [at[1]])
    must_have(rig, at[0], [b"now"])


@pytest.mark.parametrize("batches", [1, 5])
def test_aborted_batches_are_appended_again_and_counted_once(mapped: Rig, topic_name: str, batches: int) -> None:
    """A broker knows the last five batches of an epoch, also those that were aborted: they would be duplicates.

    The other partition of the transaction has a record that its copy does not take, behind as many batches but one.
    """
    rig = mapped
    rig.spec = replace(rig.spec, merge_small_batches=SmallBatches.OFF, transaction_ms=1_000)
    rig.destination.create(topic_name, 2, config={"max.message.bytes": "2000"})
    at = rig.source.create(topic_name, 2)
    for n in range(batches):
        rig.source.produce(at[0], [b"x" * 5_000 if n == batches - 1 else b"%d" % n])
        rig.source.produce(at[1], [b"%d" % n])
    with rig.copier(at) as copier:
        assert broken(copier, at[0]) == "RECORD_TOO_LARGE"
        rig.copied(copier, only=[at[1]])
        assert copier.reports()[at[1]].records == batches
    must_be_equal(rig, [at[1]])
    must_have(rig, at[0], [b"%d" % n for n in range(batches - 1)])
    everything = read(rig.destination.servers, [at[1]], "read_uncommitted")[at[1]]
    assert len(everything) >= 2 * batches, "they were appended, and aborted"
    assert len(everything) % batches == 0


def test_positions_rewound_under_a_running_worker_move_nothing(mapped: Rig, topic_name: str) -> None:
    """Its next transaction commits its own position again; a worker that finds the other one first is broken by it."""
    rig = mapped
    at = rig.create(topic_name, 2)
    with rig.copier(at) as copier:
        for each in at:
            rig.source.produce(each, FIVE)
        rig.copied(copier)
        for each in at:
            rewind(rig, each)
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)
    assert committed(rig, at[0]).position == 2 * len(FIVE)
    with rig.copier(at) as copier:
        assert broken(copier, at[1]) == "POSITION_NOT_OURS"
        rig.source.produce(at[0], FIVE)
        rig.copied(copier, only=[at[0]])
    must_be_equal(rig, [at[0]])
    must_have(rig, at[1], FIVE)


@contextmanager
def consuming(rig: Rig, topic: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has joined the group of the mirror's own positions."""
    options = {"bootstrap.servers": rig.destination.servers, "group.id": group_of(rig.spec.mirror), "log_level": 2}
    more = {"group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(options | more)
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30)
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_in_the_group_of_positions_moves_nothing(mapped: Rig, topic_name: str, protocol: str) -> None:
    """Brokers take positions in a transaction from outside, beside those of the group's members."""
    rig = mapped
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
        with consuming(rig, topic_name, protocol) as consumer:
            rig.source.produce(at, FIVE)
            rig.copied(copier)
            consumer.commit(offsets=[Place(topic_name, 0, 1)], asynchronous=False)
            rig.source.produce(at, FIVE)
            rig.copied(copier)
            assert committed(rig, at).position == 3 * len(FIVE)
    must_be_equal(rig, [at])


def test_partitions_that_are_added_join_the_transactions_of_a_running_worker(mapped: Rig, topic_name: str) -> None:
    rig = mapped
    at = rig.create(topic_name)
    with rig.copier(at) as copier:
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)
        for side in (rig.destination, rig.source):
            side.admin.create_partitions([NewPartitions(topic_name, 3)])[topic_name].result(20)
            until(lambda: side.complete(topic_name, 3), 20)  # noqa: B023
        new = tuple(MirrorPartition(topic_name, n) for n in (1, 2))
        for each in (*at, *new):
            rig.source.produce(each, FIVE, linger_ms=1)  # another client, which finds all partitions
        copier.extend(new)
        rig.copied(copier)
        assert copier.reports()[at[0]].records == 2 * len(FIVE), "it was not begun anew"
    must_be_equal(rig, [*at, *new])
