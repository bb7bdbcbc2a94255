"""A mirror's transactions: whatever the network loses, readers of committed records see each record once."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.transactional_append import TABLE, TxnEvent, TxnPhase, after
from tests.unit.domain.transaction_broker import Brokers, Fenced, Network, NoAnswer, Partition, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PARTITIONS, RECORDS = 2, 40
Table = "Mapping[tuple[TxnPhase, TxnEvent], TxnPhase]"


@dataclass
class Copier:
    """Does what the table says; `refuses`: how often the destination refuses an append for a reason of its own."""

    brokers: Brokers
    network: Network
    refuses: float
    table: Mapping[tuple[TxnPhase, TxnEvent], TxnPhase] = field(default_factory=lambda: TABLE)
    holds_lease: bool = True
    phase: TxnPhase = TxnPhase.TAKE_OVER
    epoch: int = -1
    begun: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)
    """The sequences behind the last commit: from there on is sent again after an abort."""

    def step(self) -> None:
        try:
            event = self._do()
        except Refused:
            event = TxnEvent.REFUSED
        except Fenced:
            event = TxnEvent.FENCED
        except NoAnswer:
            event = TxnEvent.UNANSWERED
        self.phase = self.table[self.phase, event]

    def _do(self) -> TxnEvent:
        doing: dict[TxnPhase, Callable[[], TxnEvent]] = {
            TxnPhase.TAKE_OVER: self._begin,
            TxnPhase.NEXT_EPOCH: self._begin,
            TxnPhase.RESUME: self._resume,
            TxnPhase.APPEND: self._append,
            TxnPhase.POSITIONS: self._positions,
            TxnPhase.COMMIT: lambda: self._end(commit=True),
            TxnPhase.COMMIT_AGAIN: lambda: self._end(commit=True),
            TxnPhase.ABORT: lambda: self._end(commit=False),
            TxnPhase.ASK_LEASE: lambda: TxnEvent.DONE if self.holds_lease else TxnEvent.NOT_MIRRORED,
        }
        return doing[self.phase]()

    def _begin(self) -> TxnEvent:
        epoch = self.epoch
        if self.phase is TxnPhase.NEXT_EPOCH and epoch != self.brokers.epoch:
            raise Fenced
        answer = self.network.call(self.brokers.init)
        assert answer is not None
        self.epoch, self.sequences, self.settled = answer, {}, {}
        return TxnEvent.DONE

    def _resume(self) -> TxnEvent:
        if not self.holds_lease:
            return TxnEvent.NOT_MIRRORED
        self.begun = {at: self.brokers.positions.get(at, 0) for at in range(PARTITIONS)}
        self.sent, self.sequences = dict(self.begun), dict(self.settled)
        return TxnEvent.DONE

    def _append(self) -> TxnEvent:
        self.begun = dict(self.sent)
        epoch = self.epoch
        for at in range(PARTITIONS):
            begin = self.sent[at]
            records = tuple(range(begin, min(RECORDS, begin + self.network.dice.randrange(1, 4))))
            if not records:
                continue
            self.network.call(lambda at=at: self.brokers.add(epoch, at))  # type: ignore[misc]
            sequence = self.sequences.get(at, 0)
            self.network.call(lambda at=at, s=sequence, r=records: self.brokers.produce(epoch, at, s, r))  # type: ignore[misc]
            self.sequences[at] = sequence + len(records)
            self.sent[at] = begin + len(records)
            if self.network.dice.random() < self.refuses:
                raise Refused
        return TxnEvent.DONE

    def _positions(self) -> TxnEvent:
        epoch, sent = self.epoch, dict(self.sent)
        self.network.call(lambda: self.brokers.commit_positions(epoch, sent))
        return TxnEvent.DONE

    def _end(self, *, commit: bool) -> TxnEvent:
        epoch = self.epoch
        self.network.call(lambda: self.brokers.end(epoch, commit=commit))
        self.settled = dict(self.sequences) if commit else self.settled
        return TxnEvent.DONE


def copied(seed: int, table: Mapping[tuple[TxnPhase, TxnEvent], TxnPhase] = TABLE) -> Brokers:
    """After a copy in which a second owner takes over now and then; at the end nothing is lost any more."""
    dice = Random(seed)
    brokers = Brokers([Partition() for _ in range(PARTITIONS)])
    network = Network(dice, lossy=0.15)
    owners = [Copier(brokers, network, 0.1, table)]
    for _ in range(300):
        if dice.random() < 0.02:
            owners[-1].holds_lease = False
            owners.append(Copier(brokers, network, 0.1, table))
        running = [each for each in owners if each.phase is not TxnPhase.STOPPED]
        dice.choice(running if dice.random() < 0.3 else [owners[-1]]).step()
    network.lossy = 0.0
    while network.late:
        network.deliver_some()
    last = Copier(brokers, network, 0.0, table)
    for owner in owners:
        owner.holds_lease = False
    for _ in range(20 * RECORDS):
        if min(brokers.positions.get(at, 0) for at in range(PARTITIONS)) == RECORDS:
            break
        last.step()
    return brokers


def wrong(brokers: Brokers) -> list[str]:
    whole = list(range(RECORDS))
    return [
        f"{at}: {partition.committed()}{', hanging' if partition.hanging else ''}"
        for at, partition in enumerate(brokers.partitions)
        if partition.committed() != whole or partition.hanging
    ]


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_lost_late_or_taken_over_each_record_is_committed_once(seed: int) -> None:
    assert wrong(copied(seed)) == []


@pytest.mark.parametrize(
    ("row", "instead"),
    [
        ((TxnPhase.ABORT, TxnEvent.DONE), TxnPhase.RESUME),
        ((TxnPhase.APPEND, TxnEvent.UNANSWERED), TxnPhase.ABORT),
        ((TxnPhase.COMMIT_AGAIN, TxnEvent.DONE), TxnPhase.APPEND),
        ((TxnPhase.COMMIT, TxnEvent.UNANSWERED), TxnPhase.APPEND),
    ],
    ids=["after an abort in its epoch", "abort behind a lost append", "go on after a late end", "take an end for done"],
)
def test_each_rule_that_looks_too_careful_loses_or_repeats_records_without_it(
    row: tuple[TxnPhase, TxnEvent], instead: TxnPhase
) -> None:
    careless = {**TABLE, row: instead}
    assert any(wrong(copied(seed, careless)) for seed in range(300))


def test_every_phase_but_the_last_has_a_way_on_for_what_can_happen_in_it() -> None:
    for phase in TxnPhase:
        events = {event for each, event in TABLE if each is phase}
        assert events == set() if phase is TxnPhase.STOPPED else {TxnEvent.DONE, TxnEvent.UNANSWERED} <= events
    assert after(TxnPhase.COMMIT, TxnEvent.DONE) is TxnPhase.APPEND
