"""What a real broker refuses of batches that are in no transaction, but of a transactional id's producer and epoch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.broker_errors import InvalidProducerEpoch
from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.domain.transactional_append import TxnEvent
from tanist.domain.writer_identity import TransactionalWriter
from tanist.kafka.adapters.transactional_fencing import fence_transactional_ids
from tanist.kafka.protocol.batch import walk
from tanist.kafka.wire.copy_transactions import CopiedBatch, CopyTransactions
from tanist.kafka.wire.requests import End, fetch, list_offsets
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.ports.fencing import TransactionFence
from tanist.ports.positions import CommittedPosition
from tests.kafka.fetcher.rig import until
from tests.kafka.wire.outcome import outcome
from tests.leading import leads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster


def soon(seconds: float = 20) -> Deadline:
    return Deadline(time.monotonic() + seconds)


class Side:
    """A cluster with one topic of two partitions."""

    def __init__(self, router: Router, servers: str, topic: str) -> None:
        self.router = router
        self.at, self.beside = MirrorPartition(topic, 0), MirrorPartition(topic, 1)
        self._servers, self._name = servers, topic

    def owner(self) -> CopyTransactions:
        """One that has taken the id over, and appends outside of transactions."""
        owner = CopyTransactions(self.router, self._name, f"{self._name}/positions", 10_000)
        owner.transactional = False
        assert owner.take_over(soon()) is TxnEvent.DONE
        owner.positions(soon())  # as workers do: the first look finds the coordinator
        return owner

    def batches(self, count: int = 1) -> list[CopiedBatch]:
        """Of three records each, as they lie in a log."""
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 50})
        for n in range(3):
            producer.produce(f"{self._name}-source", b"%d" % n, partition=0)
        assert producer.flush(20) == 0
        answer = fetch(self.router, {MirrorPartition(f"{self._name}-source", 0): 0}, soon())
        (found,) = answer.values()
        assert not isinstance(found, TanistError)
        _, batch = next(iter(walk(found.records)))
        return [CopiedBatch(self.at, memoryview(bytearray(batch)), 3) for _ in range(count)]

    def end(self) -> int:
        found = list_offsets(self.router, {self.at: End.LOG_END}, soon())[self.at]
        assert not isinstance(found, TanistError)
        return found


@pytest.fixture
def side(clusters: Mapping[str, SandboxCluster], topic_name: str) -> Iterator[Side]:
    cluster = clusters["east"]
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    names = [topic_name, f"{topic_name}-source"]
    for future in client.create_topics([NewTopic(each, 2, 1) for each in names]).values():
        future.result(20)
    with Router(cluster.endpoint(), "tanist-test") as router:
        for each in names:
            deadline = soon()
            while not leads(router, each, 2, deadline):
                router.pause(0.1, deadline)
        yield Side(router, cluster.bootstrap_servers, topic_name)


def test_a_new_epoch_alone_refuses_no_batch_outside_of_transactions_and_the_marker_of_a_fence_does(side: Side) -> None:
    """No broker asks the coordinator about such a batch: whoever takes over fences before it reads where to go on."""
    old = side.owner()
    assert outcome(old.append(side.batches(2), soon())) is TxnEvent.DONE
    assert old.bases == [0, 3]
    new = side.owner()
    assert outcome(old.append(side.batches(), soon())) is TxnEvent.DONE, "this is why a fence is needed"
    assert new.end_empty([side.at], soon(), commit=False) is TxnEvent.DONE
    assert new.next_epoch(soon()) is TxnEvent.DONE
    assert side.end() == 10
    assert outcome(old.append(side.batches(), soon())) is TxnEvent.FENCED
    assert outcome(new.append(side.batches(), soon())) is TxnEvent.DONE
    assert new.bases == [10], "nothing has come between the look at the log and the first batch"


def test_a_failover_fences_owners_that_append_outside_of_transactions(side: Side) -> None:
    old = side.owner()
    assert outcome(old.append(side.batches(), soon())) is TxnEvent.DONE
    place = CommittedPosition(3, "p")
    assert old.commit_positions({side.at: place}, soon()) is TxnEvent.DONE, old.error
    assert old.end(soon(), commit=True) is TxnEvent.DONE
    writers = {at: TransactionalWriter(side.at.topic) for at in (side.at, side.beside)}
    fences = fence_transactional_ids(side.router, writers, soon())
    assert all(isinstance(each, TransactionFence) for each in fences.values()), fences
    before = side.end()
    assert outcome(old.append(side.batches(), soon())) is TxnEvent.FENCED
    assert isinstance(old.error, InvalidProducerEpoch)
    assert old.commit_positions({side.at: CommittedPosition(6, "p")}, soon()) is TxnEvent.FENCED
    assert side.end() == before


def test_positions_alone_leave_no_marker_beside_the_records(side: Side) -> None:
    owner = side.owner()
    for n in range(3):
        assert outcome(owner.append(side.batches(), soon())) is TxnEvent.DONE
        assert owner.bases == [3 * n]
        assert owner.commit_positions({side.at: CommittedPosition(3 * n + 3, "p")}, soon()) is TxnEvent.DONE
        assert owner.end(soon(), commit=True) is TxnEvent.DONE
    assert side.end() == 9

    def position() -> int:
        found = owner.positions(soon())[side.at]
        return -1 if isinstance(found, TanistError) else found.offset  # its marker may come a moment later

    until(lambda: position() == 9, 10)
