"""In-sync replicas and open transactions of partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.failover.facts import OpenTransaction, TransactionalProducers
    from tanist.domain.names import BrokerId, TopicPartition
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class InSync:
    """Replicas in sync (0: no leader), those needed for acks=all (`min.insync.replicas`), and the leader if known."""

    replicas: int
    needed: int
    leader: BrokerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """`partitions`: their number for each topic given. `topic_ids`: of the topics whose id the cluster reports."""

    cluster_id: str
    partitions: Mapping[str, int | TanistError]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Replicas(Protocol):
    """Of one cluster."""

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        """Metadata from any broker that answers, so that one frozen broker does not make the cluster look down."""
        ...

    def in_sync(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, InSync | TanistError]:
        """In-sync replicas of each partition."""
        ...

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that the leaders report as open; partitions whose leader does not report are left out."""
        ...

    def named_in_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that coordinators list with these partitions, also before their first record.

        Raises:
            TransactionalIdAuthorizationFailed, UnsupportedVersion: some transactions are not reported to this login.
            CouldNotTell, BrokerError: a coordinator does not answer.
        """
        ...

    def transactional(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, TransactionalProducers]:
        """Which partitions transactional producers write to, as coordinators and leaders remember them.

        Those of mirrors do not count. Raises as `named_in_transactions`.
        """
        ...
