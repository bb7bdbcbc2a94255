"""Which partitions of the source a transaction names: its coordinators know of those that have written nothing yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import TransactionalIdAuthorizationFailed
from tanist.domain.errors import Stopped, TanistError, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failover.facts import OpenTransaction
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.usecases.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTransactions:
    """`complete`: False: this login may never see all of them; None: a coordinator does not answer, for `reason`."""

    complete: bool | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    reason: str = ""

    def names(self, at: TopicPartition) -> bool | None:
        """Whether one names `at`, as far as can ever be told."""
        return None if self.complete is None else any(each.partition == at for each in self.transactions)


@dataclass(slots=True)
class Coordinated:
    """Remembers what was there when the fence was first seen to stand.

    A transaction that began later is a producer that tries again behind the fence: it gets no record in, only the
    marker of its abort. If those counted, a producer that never gives up would hold a drain for ever.
    """

    _before: frozenset[tuple[str, int, int]] | None = None

    def ask(
        self, source: ClusterSnapshot, partitions: Sequence[TopicPartition], by: Deadline, *, fenced: bool
    ) -> NamedTransactions:
        """`fenced`: the fences of all of `partitions` stand."""
        try:
            found = source.named_in_transactions(partitions, by)
        except (TransactionalIdAuthorizationFailed, UnsupportedVersion) as never:
            return NamedTransactions(complete=False, reason=str(never))
        except Stopped:
            raise
        except TanistError as why:
            return NamedTransactions(reason=str(why))
        if not fenced:
            self._before = None
        elif self._before is None:
            self._before = frozenset(map(_identity, found))
        old = found if self._before is None else tuple(t for t in found if _identity(t) in self._before)
        return NamedTransactions(complete=True, transactions=old)


def _identity(transaction: OpenTransaction) -> tuple[str, int, int]:
    return (transaction.transactional_id, transaction.producer_id, transaction.since)
