"""Brokers in memory as far as transactions go, with a network that loses answers and delays requests.

As brokers of 4.x do for clients of the old protocol (EndTxn <= 4): the epoch stays after an abort, the last batches of
an epoch stay known, an end compares id and epoch alone, and a late append to a partition that is in no transaction is
taken (verification is off, the worst case).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

KNOWN_BATCHES: Final = 5


class Refused(Exception):
    """Answered with an error that ends the transaction."""


class Fenced(Exception):
    """Answered with a fatal one: another epoch is the owner's."""


class NoAnswer(Exception):
    """The request may have arrived, or may arrive later."""


@dataclass
class Partition:
    """`log`: each entry (records, epoch), or (marker, epoch). `epochs`: of the producer, as the leader knows it."""

    log: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
    markers: list[tuple[int, int, bool]] = field(default_factory=list)
    epoch: int = -1
    batches: list[tuple[int, int]] = field(default_factory=list)
    """(sequence, count) of the epoch."""

    def append(self, records: tuple[int, ...], epoch: int, sequence: int) -> None:
        if epoch < self.epoch:
            raise Fenced
        if epoch > self.epoch:
            if sequence != 0:
                raise Refused
            self.epoch, self.batches = epoch, []
        elif (sequence, len(records)) in self.batches:
            return  # a duplicate: answered as if it had been appended now
        elif (self.batches and sequence != sum(self.batches[-1])) or (not self.batches and sequence != 0):
            raise Refused
        self.batches = [*self.batches, (sequence, len(records))][-KNOWN_BATCHES:]
        self.log.append((records, epoch, len(self.markers)))

    def end(self, epoch: int, *, commit: bool) -> None:
        if epoch > self.epoch:
            self.epoch, self.batches = epoch, []
        self.markers.append((epoch, len(self.log), commit))

    def committed(self) -> list[int]:
        """What a reader of committed records has read; it waits in front of a transaction that nobody ends."""
        found: list[int] = []
        begin = 0
        for _, until, commit in self.markers:
            if commit:
                found += [record for records, _, _ in self.log[begin:until] for record in records]
            begin = until
        return found

    @property
    def hanging(self) -> bool:
        return len(self.log) > (self.markers[-1][1] if self.markers else 0)


@dataclass
class Brokers:
    """One transactional id, its partitions, and the positions in a fake group."""

    partitions: list[Partition]
    epoch: int = -1
    open: bool = False
    added: set[int] = field(default_factory=set)
    last: tuple[int, bool] | None = None
    """The last end: epoch, and whether it was a commit."""
    pending: dict[int, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def init(self) -> int:
        """The epoch of a new owner, or of the same one."""
        self.epoch += 1
        if self.open:
            self._finish(self.epoch, commit=False)  # markers carry an epoch that nobody writes in
            self.epoch += 1
        return self.epoch

    def add(self, epoch: int, at: int) -> None:
        self._own(epoch)
        self.open = True
        self.added.add(at)

    def produce(self, epoch: int, at: int, sequence: int, records: tuple[int, ...]) -> None:
        self.partitions[at].append(records, epoch, sequence)

    def commit_positions(self, epoch: int, positions: dict[int, int]) -> None:
        self._own(epoch)
        self.open = True
        self.pending |= positions

    def end(self, epoch: int, *, commit: bool) -> None:
        self._own(epoch)
        if not self.open:
            if self.last != (epoch, commit):
                raise Refused  # INVALID_TXN_STATE
            return
        self._finish(epoch, commit=commit)

    def _own(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise Fenced

    def _finish(self, epoch: int, *, commit: bool) -> None:
        for at in self.added:
            self.partitions[at].end(epoch, commit=commit)
        if commit:
            self.positions |= self.pending
        self.open, self.added, self.pending, self.last = False, set(), {}, (epoch, commit)


@dataclass
class Network:
    """Loses one request in `lossy`: it arrives and its answer does not, or it arrives later, or never."""

    dice: Random
    lossy: float
    late: list[Callable[[], object]] = field(default_factory=list)

    def call(self, request: Callable[[], int | None]) -> int | None:
        self.deliver_some()
        if self.dice.random() >= self.lossy:
            return request()
        match self.dice.randrange(3):
            case 0:
                self._arrive(request)
            case 1:
                self.late.append(request)
            case _:
                pass
        raise NoAnswer

    def deliver_some(self) -> None:
        """What was late arrives now, or later still."""
        for request in [each for each in self.late if self.dice.random() < 0.3]:
            self.late.remove(request)
            self._arrive(request)

    @staticmethod
    def _arrive(request: Callable[[], object]) -> None:
        with suppress(Refused, Fenced):
            request()
