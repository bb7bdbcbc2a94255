"""The fence of transactional ids against real brokers: what an owner had begun, or sends late, changes nothing."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.domain.transactional_append import TxnEvent
from tanist.domain.writer_identity import ProducerEpoch, TransactionalWriter
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.batch import patch, single_record_batch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.protocol.record_set import encoded
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.copy_transactions import CopiedBatch, CopyTransactions
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.requests import End, list_offsets
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.transactions import Producer, TransactionalId
from tanist.ports.fencing import ProducerFence, TransactionFence
from tanist.ports.positions import CommittedPosition
from tanist.ports.topics import NewTopic
from tests.conftest import librdkafka
from tests.kafka.fetcher.rig import until
from tests.kafka.wire.outcome import outcome
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster

SOON = SystemClock().deadline
DONE, FENCED = TxnEvent.DONE, TxnEvent.FENCED
VERIFICATION = "transaction.partition.verification.enable"


def a_batch(value: bytes) -> memoryview:
    return memoryview(single_record_batch(encoded(None, value, []), -1, -1, -1, SystemClock().now()))


class Lab:
    """A topic of two partitions, the worker that copies to it, and the failover beside it."""

    def __init__(self, cluster: SandboxCluster, topic: str) -> None:
        self.cluster, self.name, self.group = cluster, f"tanist-{topic}-7", f"{topic}/positions"
        self.ours, self.theirs = (Router(cluster.endpoint(), "tanist-test") for _ in range(2))
        self.partitions = self.topic(topic)
        self.worker = CopyTransactions(self.theirs, self.name, self.group, 60_000)
        self.fencing = KafkaProducerFencing(self.ours)
        until(lambda: self.worker.positions(SOON(5)) == {}, 20)

    def topic(self, name: str) -> tuple[MirrorPartition, ...]:
        with over(KafkaTopics, self.cluster.endpoint()) as topics:
            new = NewTopic(name=name, partitions=2, replication_factor=1, configs={})
            assert topics.create([new], SOON(20)) == {name: None}
        self.theirs.refresh([name], SOON(20))
        return tuple(MirrorPartition(name, n) for n in range(2))

    def copies(self, value: bytes, position: int) -> None:
        """All of a transaction but its end."""
        assert (
            outcome(self.worker.append([CopiedBatch(at, a_batch(value), 1) for at in self.partitions], SOON(20)))
            is DONE
        )
        wanted = dict.fromkeys(self.partitions, CommittedPosition(position, "proof"))
        assert self.worker.commit_positions(wanted, SOON(20)) is DONE, self.worker.error

    def fenced(self, *more: MirrorPartition) -> dict[MirrorPartition, TransactionFence | TanistError]:
        writers = dict.fromkeys((*self.partitions, *more), TransactionalWriter(self.name))
        return dict(self.fencing.fence_transactional_ids(writers, SOON(20)))

    def proof_of(self, at: MirrorPartition, fence: ProducerEpoch | None) -> ProducerFence | TanistError:
        return self.fencing.proof({at: TransactionalWriter(self.name, fence)}, SOON(20))[at]

    def late(self, at: MirrorPartition, producer: Producer, sequence: int) -> TanistError | None:
        """A Produce that was sent long ago reaches the leader now."""
        batch = a_batch(b"late")
        patch(batch, producer.id, producer.epoch, sequence, transactional=True)
        connection = self.theirs.connection(self.theirs.leader(at), SOON(20), channel="late")
        appends = Appends(connection, transactional_id=self.name)
        appends.post([ProduceBatch(at.topic, at.partition, batch)], SOON(20))
        code = appends.collect(SOON(20)).partitions[0].error_code
        return None if code == NONE else error_for(code, str(at))

    def positions(self) -> dict[MirrorPartition, int]:
        found = self.worker.positions(SOON(20))
        return {MirrorPartition(*at): each.offset for at, each in found.items() if not isinstance(each, TanistError)}

    def committed(self) -> list[bytes]:
        """What a reader of committed records finds up to the end of both logs."""
        options = librdkafka(self.cluster.endpoint(), group_id="look", isolation_level="read_committed")
        consumer = Consumer(options | {"enable.partition.eof": True})
        consumer.assign([At(at.topic, at.partition, 0) for at in self.partitions])
        found, ended = list[bytes](), 0
        while ended < len(self.partitions):
            message = consumer.poll(20)
            assert message is not None
            if message.error():
                ended += 1
            else:
                found.append(message.value() or b"")
        consumer.close()
        return sorted(found)

    def ends(self, end: End) -> dict[MirrorPartition, int | TanistError]:
        return list_offsets(self.ours, dict.fromkeys(self.partitions, end), SOON(20))


@pytest.fixture
def lab(clusters: Mapping[str, SandboxCluster], topic_name: str) -> Iterator[Lab]:
    lab = Lab(clusters["west"], topic_name)
    yield lab
    lab.ours.close()
    lab.theirs.close()


@pytest.fixture
def unverified(clusters: Mapping[str, SandboxCluster]) -> Iterator[None]:
    """Leaders ask no coordinator, as before Kafka 3.6."""
    client = AdminClient(librdkafka(clusters["west"].endpoint()))

    def alter(value: str) -> None:
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for future in client.incremental_alter_configs([resource]).values():
            future.result(20)

    alter("false")
    yield
    alter("true")


def test_an_owner_with_an_open_transaction_can_neither_add_to_it_nor_decide_it(lab: Lab) -> None:
    assert lab.worker.take_over(SOON(20)) is DONE
    lab.copies(b"committed", 1)
    assert lab.worker.end(SOON(20), commit=True) is DONE
    before, seen = dict.fromkeys(lab.partitions, 1), [b"committed"] * 2
    until(lambda: (lab.positions(), lab.committed()) == (before, seen), 20)
    lab.copies(b"open", 2)
    assert lab.ends(End.LAST_STABLE) != lab.ends(End.HIGH_WATERMARK)
    fences = lab.fenced()
    ends = {at: each.end for at, each in fences.items() if isinstance(each, TransactionFence)}
    assert ends == lab.ends(End.LAST_STABLE) == lab.ends(End.LOG_END), "nothing holds the last stable offset"
    places = dict.fromkeys(lab.partitions, CommittedPosition(3, "proof"))
    assert outcome(lab.worker.append([CopiedBatch(lab.partitions[0], a_batch(b"late"), 1)], SOON(20))) is FENCED
    assert lab.worker.commit_positions(places, SOON(20)) is FENCED
    assert lab.worker.end(SOON(20), commit=True) is FENCED
    assert lab.ends(End.LOG_END) == ends
    assert (lab.positions(), lab.committed()) == (before, seen)


@pytest.mark.parametrize("verified", [True, False], ids=["", "no verification"])
def test_a_produce_of_an_owner_between_two_transactions_is_refused_by_the_leader(
    lab: Lab, request: pytest.FixtureRequest, *, verified: bool
) -> None:
    """Its coordinator has nothing to abort: without the empty transaction the leader would accept it."""
    if not verified:
        request.getfixturevalue("unverified")
    assert lab.worker.take_over(SOON(20)) is DONE
    lab.copies(b"committed", 1)
    assert lab.worker.end(SOON(20), commit=True) is DONE
    old = lab.worker._owned.producer
    fences = lab.fenced()
    seen = lab.committed()
    for at in lab.partitions:
        assert isinstance(fences[at], TransactionFence), fences
        assert lab.late(at, old, 1) is not None
    assert lab.committed() == seen
    assert lab.ends(End.LAST_STABLE) == lab.ends(End.LOG_END)


@pytest.mark.usefixtures("unverified")
def test_init_producer_id_alone_is_no_fence(lab: Lab) -> None:
    """What the empty transaction is for."""
    assert lab.worker.take_over(SOON(20)) is DONE
    lab.copies(b"committed", 1)
    assert lab.worker.end(SOON(20), commit=True) is DONE
    old = lab.worker._owned.producer
    TransactionalId(lab.ours, lab.name, 15_000).take_over(SOON(20))
    at = lab.partitions[0]
    assert lab.late(at, old, 1) is None
    assert lab.ends(End.LAST_STABLE)[at] != lab.ends(End.LOG_END)[at], "it hangs until somebody ends it"
    fence = lab.fenced()[at]
    assert isinstance(fence, TransactionFence)
    assert lab.ends(End.LAST_STABLE) == lab.ends(End.LOG_END)


def test_who_asks_for_a_new_epoch_gets_one(lab: Lab) -> None:
    """Only the state that it reads then keeps it off."""
    lab.fenced()
    assert lab.worker.take_over(SOON(20)) is DONE
    assert outcome(lab.worker.append([CopiedBatch(lab.partitions[0], a_batch(b"new"), 1)], SOON(20))) is DONE
    assert lab.worker.end(SOON(20), commit=False) is DONE


def test_the_proof_is_by_the_epoch_that_was_recorded(lab: Lab) -> None:
    assert lab.worker.take_over(SOON(20)) is DONE
    lab.copies(b"committed", 1)
    assert lab.worker.end(SOON(20), commit=True) is DONE
    first, again = lab.fenced(), lab.fenced()
    for at in lab.partitions:
        one, two = first[at], again[at]
        assert isinstance(one, TransactionFence)
        assert isinstance(two, TransactionFence)
        assert two.epoch.epoch > one.epoch.epoch
        assert two.end == one.end + 1, "one marker more, and nothing else"
        higher, unknown = two.epoch._replace(epoch=two.epoch.epoch + 1_000), ProducerEpoch(987_654, 3)
        proofs = [lab.proof_of(at, each) for each in (None, one.epoch, two.epoch, higher, unknown)]
        stands, open_yet = ProducerFence.FENCED, ProducerFence.OPEN
        assert proofs == [open_yet, stands, stands, open_yet, stands]


@pytest.mark.usefixtures("unverified")
def test_a_fence_that_the_leader_has_forgotten_is_none_where_it_verifies_no_transaction(lab: Lab) -> None:
    """As before Kafka 3.6; elsewhere it asks the coordinator."""
    assert lab.proof_of(lab.partitions[0], ProducerEpoch(987_654, 3)) is ProducerFence.FORGOTTEN


def test_a_partition_that_is_not_there_keeps_no_other_one_open(lab: Lab) -> None:
    gone = MirrorPartition(f"{lab.partitions[0].topic}-gone", 0)
    fences = lab.fenced(gone)
    assert isinstance(fences[gone], UnknownTopicOrPartition)
    assert all(isinstance(fences[at], TransactionFence) for at in lab.partitions)


def test_a_worker_that_goes_on_with_other_topics_does_not_keep_its_id_from_being_fenced(lab: Lab) -> None:
    """It has its lease, so whenever it is fenced it takes the id over again; and it copies to the topics that stay."""
    stay, stop, took = lab.topic(f"{lab.partitions[0].topic}-stays"), Event(), list[TxnEvent]()

    def goes_on() -> None:
        took.append(lab.worker.take_over(SOON(20)))
        while not stop.is_set():
            done = outcome(lab.worker.append([CopiedBatch(at, a_batch(b"stays"), 1) for at in stay], SOON(20)))
            done = lab.worker.end(SOON(20), commit=True) if done is DONE else done
            if done is not DONE:
                took.append(lab.worker.take_over(SOON(20)))

    worker = Thread(target=goes_on)
    worker.start()
    try:
        for _ in range(10):
            fences = lab.fenced()
            assert all(isinstance(each, TransactionFence) for each in fences.values()), fences
    finally:
        stop.set()
        worker.join(30)
    assert len(took) > 3, "it was fenced and went on"
    assert lab.committed() == []
