"""A mirror that delivers at least once: whatever the network loses, its copy has no hole, and no batch is misplaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.transactional_append import TABLE, TxnEvent, TxnPhase
from tests.unit.domain.test_transactional_append import PARTITIONS, RECORDS, Copier
from tests.unit.domain.transaction_broker import Brokers, Network, Partition, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class PlainCopier(Copier):
    """Appends outside of transactions. `fenced`: since it took over; `seen`: entries of each log where it resumed.

    `misplaced`: how often an entry lay elsewhere than behind those.
    """

    fenced: bool = False
    seen: dict[int, int] = field(default_factory=dict)
    misplaced: int = 0

    def _do(self) -> TxnEvent:
        if self.phase is TxnPhase.FENCE:
            return self._fence()
        return super()._do()

    def _begin(self) -> TxnEvent:
        if self.phase is TxnPhase.TAKE_OVER:
            self.fenced = False
        return super()._begin()

    def _fence(self) -> TxnEvent:
        epoch = self.epoch
        for at in range(PARTITIONS):
            self.network.call(lambda at=at: self.brokers.add(epoch, at))  # type: ignore[misc]
        self.network.call(lambda: self.brokers.end(epoch, commit=False))
        self.fenced = True
        return TxnEvent.DONE

    def _resume(self) -> TxnEvent:
        if self.holds_lease and not self.fenced:
            return TxnEvent.UNFENCED
        self.seen = {at: len(each.log) for at, each in enumerate(self.brokers.partitions)}
        return super()._resume()

    def _append(self) -> TxnEvent:
        epoch = self.epoch
        for at, partition in enumerate(self.brokers.partitions):
            begin = self.sent[at]
            records = tuple(range(begin, min(RECORDS, begin + self.network.dice.randrange(1, 4))))
            if not records:
                continue
            sequence = self.sequences.get(at, 0)
            self.network.call(lambda at=at, s=sequence, r=records: self.brokers.produce(epoch, at, s, r))  # type: ignore[misc]
            self.misplaced += len(partition.log) != self.seen[at] + 1
            self.seen[at] = len(partition.log)
            self.sequences[at] = sequence + len(records)
            self.sent[at] = begin + len(records)
            if self.network.dice.random() < self.refuses:
                raise Refused
        return TxnEvent.DONE


def copied(seed: int, table: Mapping[tuple[TxnPhase, TxnEvent], TxnPhase] = TABLE) -> tuple[Brokers, int]:
    """After a copy in which a second owner takes over now and then; and how often a batch was misplaced."""
    dice = Random(seed)
    brokers = Brokers([Partition() for _ in range(PARTITIONS)])
    network = Network(dice, lossy=0.1)
    owners = [PlainCopier(brokers, network, 0.05, table)]
    for _ in range(300):
        if dice.random() < 0.02:
            owners[-1].holds_lease = False
            owners.append(PlainCopier(brokers, network, 0.05, table))
        running = [each for each in owners if each.phase is not TxnPhase.STOPPED]
        dice.choice(running if dice.random() < 0.3 else [owners[-1]]).step()
    network.lossy = 0.0
    while network.late:
        network.deliver_some()
    for owner in owners:
        owner.holds_lease = False
    last = PlainCopier(brokers, network, 0.0, table)
    for _ in range(20 * RECORDS):
        if min(brokers.positions.get(at, 0) for at in range(PARTITIONS)) == RECORDS:
            break
        last.step()
    return brokers, sum(each.misplaced for each in (*owners, last))


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_lost_late_or_taken_over_no_record_is_skipped_and_no_batch_is_misplaced(seed: int) -> None:
    """S1.4: a repeat leaves no hole behind it, and nothing comes between a look at the log and the next batch."""
    brokers, misplaced = copied(seed)
    assert misplaced == 0
    for partition in brokers.partitions:
        highest = -1
        for each in (one for records, _, _ in partition.log for one in records):
            assert each <= highest + 1
            highest = max(highest, each)
        assert highest == RECORDS - 1


def test_without_the_fence_late_batches_of_earlier_owners_come_between(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(owner: PlainCopier) -> TxnEvent:
        owner.fenced = True
        return TxnEvent.DONE

    monkeypatch.setattr(PlainCopier, "_fence", none)
    assert any(copied(seed)[1] for seed in range(100))
