"""Replicas in sync, and open transactions: the ports `Replicas` and `OpenTransactions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.failback.open_transactions import HANGING, ReturnedTransaction
from tanist.domain.failover.facts import OpenTransaction, TransactionalProducers
from tanist.domain.names import EpochMs, topic_id_text
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import Markers, describe_producers, write_markers
from tanist.kafka.wire.router import Router, share
from tanist.kafka.wire.transactions import TransactionalId, ongoing_transactions, transactional_producers
from tanist.ports.logs import ClusterSeen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.names import TopicPartition
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")

_OF_MIRRORS: Final = "tanist-"
"""How the transactional ids begin with which mirrors write their state, and test a topic."""


class KafkaReplicas:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        try:
            self._router.refresh(topics, share(by, 2))
        except TimedOut:  # a connection to a broker that has frozen since: it is closed now, and another one is asked
            self._router.refresh(topics, by)
        known = self._router.topics()
        return ClusterSeen(
            cluster_id=str(self._router.cluster_id),
            partitions={name: known[name].error or len(known[name].partitions) for name in topics},
            topic_ids={name: topic_id_text(found) for name in topics if (found := known[name].topic_id) is not None},
        )

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        if not partitions:
            return ()
        found = describe_producers(self._router, partitions, by)
        return tuple(
            OpenTransaction(at, each.producer_id, EpochMs(each.last_timestamp))
            for at, producers in found.items()
            if not isinstance(producers, TanistError)
            for each in producers
            if each.transaction_start >= 0
        )

    def named_in_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        asked = frozenset(partitions)
        return tuple(
            OpenTransaction(at, each.producer_id, EpochMs(each.since), each.transactional_id)
            for each in ongoing_transactions(self._router, by)
            for at in sorted(each.partitions & asked)
        )

    def transactional(self, partitions: Sequence[_P], by: Deadline) -> Mapping[_P, TransactionalProducers]:
        listed = transactional_producers(self._router, by)
        ids = {number for name, number in listed.items() if not name.startswith(_OF_MIRRORS)}
        if not ids or not partitions:
            return dict.fromkeys(partitions, TransactionalProducers.NONE)
        return {at: _writing(each, ids) for at, each in describe_producers(self._router, partitions, by).items()}


def _writing(producers: tuple[ActiveProducer, ...] | TanistError, ids: Collection[int]) -> TransactionalProducers:
    """A leader forgets producers that have been idle (`producer.id.expiration.ms`, a day), so it never says none."""
    if isinstance(producers, TanistError):
        return TransactionalProducers.UNKNOWN
    here = any(each.producer_id in ids for each in producers)
    return TransactionalProducers.HERE if here else TransactionalProducers.ELSEWHERE


_TIMEOUT_MS: Final = 15_000


class KafkaOpenTransactions:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        """Leaders are asked before and after the coordinators: one that ends in between is not taken for hanging."""
        asked = frozenset(partitions)
        before = self._at_leaders(partitions, by)
        every = ongoing_transactions(self._router, by)
        after = self._at_leaders(partitions, by)
        known = {(each.producer_id, at) for each in every for at in each.partitions}
        named = [
            ReturnedTransaction(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                EpochMs(each.since),
                each.state,
                tuple(sorted(each.partitions)),
            )
            for each in every
            if each.partitions & asked
        ]
        hanging = [
            ReturnedTransaction(
                "",
                producer.producer_id,
                producer.producer_epoch,
                EpochMs(producer.last_timestamp),
                HANGING,
                (at,),
                max(producer.coordinator_epoch, 0),
            )
            for (at, number, start), producer in after.items()
            if (at, number, start) in before and (number, at) not in known
        ]
        return (*sorted(named), *sorted(hanging))

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        if transaction.transactional_id:
            TransactionalId(self._router, transaction.transactional_id, _TIMEOUT_MS).take_over(by)
            return
        epoch = (transaction.coordinator_epoch,)
        marker = Markers(transaction.producer_id, transaction.producer_epoch, epoch)
        for error in write_markers(self._router, dict.fromkeys(transaction.partitions, marker), by).values():
            if isinstance(error, TanistError):
                raise error

    def _at_leaders(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[tuple[TopicPartition, int, int], ActiveProducer]:
        """By partition, producer id and first offset of the transaction."""
        if not partitions:
            return {}
        found = describe_producers(self._router, partitions, by)
        return {
            (at, each.producer_id, each.transaction_start): each
            for at, producers in found.items()
            for each in value(producers)
            if each.transaction_start >= 0
        }
