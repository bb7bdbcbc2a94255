"""Open transactions of a cluster that has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failback.open_transactions import ReturnedTransaction
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


class OpenTransactions(Protocol):
    """Transactions that name a partition, or hold its last stable offset."""

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        """All of them, by transactional id; those that no coordinator knows last.

        Raises:
            TransactionalIdAuthorizationFailed, UnsupportedVersion: not all are reported to this login.
            CouldNotTell, BrokerError: a leader or coordinator does not answer.
        """
        ...

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        """Abort it in all partitions that it names, and fence its producer; returns once the markers are written.

        `by`: until when the request may be sent.

        Raises:
            TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing.
            ClusterAuthorizationFailed: ALTER on the cluster is missing, to abort one that no coordinator knows.
            CouldNotTell, BrokerError: a leader or coordinator does not answer; it may be aborted nevertheless.
        """
        ...
