"""Open transactions of an old source, found and aborted: the port `OpenTransactions`.

A transaction is aborted as `Admin.fenceProducers` does it, by initialising its transactional id; one that no
coordinator knows as `kafka-transactions.sh abort` does it, by a marker in the producer epoch that its leader reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.failback.open_transactions import HANGING, ReturnedTransaction
from tanist.domain.names import EpochMs
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.ongoing import ongoing_transactions
from tanist.kafka.wire.requests import Markers, describe_producers, write_markers
from tanist.kafka.wire.transactional_id import TransactionalId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import TopicPartition
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

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
