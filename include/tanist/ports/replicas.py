"""Which partitions can be written to, and which transactions are open."""

from __future__ import annotations

from dataclasses import dataclass
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


class Replicas(Protocol):
    def in_sync(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, InSync | TanistError]: ...

    def open_transactions(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[OpenTransaction, ...]:
        """Transactions that are open on these partitions; partitions that do not tell are left out."""
        ...

    def close(self) -> None: ...
