"""Transactions of an old source that are still open after its return, and the plan to abort them.

A log with an open transaction is not final: a coordinator still appends its marker, and nobody knows which. Brokers
abort a transaction after its own timeout. One that no coordinator knows any more (KIP-664 calls it hanging) stays open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.words import PlanHash, canonical, hash_of
from tanist.domain.errors import CouldNotTell, Refused
from tanist.domain.names import EpochMs, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION: Final = 2
"""1: with the state of each transaction, which is not read."""
_STATE_IN_V1: Final = 4
ONGOING: Final = "Ongoing"
"""The state in which a coordinator waits for its producer. In all others it is about to write markers itself."""
HANGING: Final = "Hanging"
"""No coordinator knows the transaction: nobody but an operator ends it."""


class NoOpenTransactions(Refused):
    name = "NO_OPEN_TRANSACTIONS"
    operator_action = "`tanist failback survey` shows what is not final yet; nothing was changed"


class SourceNotFenced(CouldNotTell):
    name = "SOURCE_NOT_FENCED"
    operator_action = (
        "producers could begin other transactions: run a fetcher of the mirror's destination, which sets a pending "
        "source fence, then run the same command again; nothing was changed"
    )


@dataclass(frozen=True, slots=True, order=True)
class ReturnedTransaction:
    """An open transaction of the old source. `transactional_id`: empty for one that no coordinator knows.

    `since`: when it began, in ms by its coordinator's clock; of a hanging one when it last wrote. `coordinator_epoch`:
    of a hanging one, as its leader knows it. `partitions`: all that it names, also those of other topics. `state`: as
    it was seen. It changes by itself, so it is no part of a plan, and two of different states are equal.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    since: EpochMs
    state: str = field(compare=False)
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int = 0

    @property
    def may_be_aborted(self) -> bool:
        return self.state in {ONGOING, HANGING}

    def is_same(self, other: ReturnedTransaction) -> bool:
        """Whether it is this very transaction, however many partitions it names by now."""
        ours = (self.transactional_id, self.producer_id, self.producer_epoch, self.since)
        theirs = (other.transactional_id, other.producer_id, other.producer_epoch, other.since)
        where = self.partitions == other.partitions if not self.transactional_id else True
        return ours == theirs and where

    def __str__(self) -> str:
        name = repr(self.transactional_id) if self.transactional_id else "which no coordinator knows"
        return f"transaction {name} of producer id {self.producer_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortPlan:
    """What an approver accepts: exactly these transactions are aborted, in all partitions that they name."""

    mirror: str
    mirror_id: str
    source_cluster_id: str
    transactions: tuple[ReturnedTransaction, ...]

    @property
    def canonical_plan(self) -> str:
        """Canonical JSON: what an approval binds."""
        found = [
            [
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.since,
                sorted([at.topic, at.partition] for at in each.partitions),
                each.coordinator_epoch,
            ]
            for each in self.transactions
        ]
        words = {"v": VERSION, "abort": self.mirror, "mirror_id": self.mirror_id, "source": self.source_cluster_id}
        return canonical({**words, "transactions": found})

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)

    @classmethod
    def read(cls, plan_json: str) -> AbortPlan:
        """The plan; the states of its transactions are empty.

        Raises ValueError, KeyError or TypeError if this is not the plan of an abort.
        """
        found: dict[str, Any] = json.loads(plan_json)
        transactions: list[list[Any]] = found["transactions"]
        if found["v"] < VERSION:
            transactions = [each[:_STATE_IN_V1] + each[_STATE_IN_V1 + 1 :] for each in transactions]
        return cls(
            mirror=found["abort"],
            mirror_id=found["mirror_id"],
            source_cluster_id=found["source"],
            transactions=tuple(
                ReturnedTransaction(
                    name, number, epoch, EpochMs(since), "", tuple(TopicPartition(*at) for at in where), coordinator
                )
                for name, number, epoch, since, where, coordinator in transactions
            ),
        )

    def still_open(self, found: Iterable[ReturnedTransaction]) -> tuple[ReturnedTransaction, ...]:
        """Those of `found` that this plan names."""
        return tuple(each for each in found if any(each.is_same(planned) for planned in self.transactions))
