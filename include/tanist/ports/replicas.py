"""Which partitions can be written to, and which transactions are open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.failover.facts import OpenTransaction
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class InSync:
    """How many replicas are in sync (0: there is no leader), and how many must be for a producer with acks=all."""

    replicas: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """`partitions`: of each topic that was asked about; `topic_ids`: of those of which the cluster tells one."""

    cluster_id: str
    partitions: Mapping[str, int | TanistError]
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Replicas(Protocol):
    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        """As whatever broker answers tells it: a single one that is frozen must not make the cluster look dead."""
        ...

    def in_sync(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, InSync | TanistError]: ...

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that are open on these partitions; partitions that do not tell are left out."""
        ...

    def named_in_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that name these partitions at a coordinator, also where they have written nothing there yet.

        Raises:
            TransactionalIdAuthorizationFailed, UnsupportedVersion: it cannot be told of all transactions.
            CouldNotTell, BrokerError: a coordinator does not answer now.
        """
        ...
