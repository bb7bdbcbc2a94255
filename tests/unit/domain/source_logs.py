"""Random source logs, and how a broker serves them to a READ_COMMITTED fetch (written without looking at our code)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.copying import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

APPLICATIONS = range(1, 5)
PLAIN, BROKER = -1, -2


@dataclass(frozen=True, slots=True)
class Stored:
    """A batch of a source's log. A record is known by its offset; compaction takes some out of `records`."""

    base_offset: int
    next_offset: int
    records: tuple[int, ...]
    producer_id: int = PLAIN
    is_transactional: bool = False
    marker: str = ""

    @property
    def is_control(self) -> bool:
        return bool(self.marker)

    @property
    def is_dense(self) -> bool:
        return len(self.records) == self.next_offset - self.base_offset

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def max_timestamp(self) -> int:
        """The model has no clock: all batches are of one moment, and `World.oldest` lies before or after it."""
        return 0


def ends_abort(batch: Stored) -> bool:
    return batch.marker == "abort"


class _Transaction(NamedTuple):
    producer_id: int
    first: int
    marker: int
    committed: bool


class Served(NamedTuple):
    """What a READ_COMMITTED fetch answers."""

    batches: list[Stored]
    aborted: list[AbortedTransaction]


@dataclass(slots=True)
class SourceLog:
    """The log of one partition, of which the first `known` batches have been written up to now."""

    batches: list[Stored]
    known: int
    log_start: int = 0
    _transactions: list[_Transaction] = field(init=False)

    def __post_init__(self) -> None:
        self._transactions = list(_transactions(self.batches))

    @property
    def end(self) -> int:
        return self.batches[self.known - 1].next_offset if self.known else self.batches[0].base_offset

    @property
    def last_stable(self) -> int:
        return min((t.first for t in self._transactions if t.first < self.end <= t.marker), default=self.end)

    def fate(self, offset: int) -> str:
        """What becomes of the record at `offset`, told from the whole log: committed, hidden, open, or gone."""
        for batch in self.batches:
            if batch.base_offset <= offset < batch.next_offset:
                break
        else:
            return "gone"
        if batch.is_control:
            return "hidden"
        if batch.is_transactional:
            for later in self.batches:
                if later.base_offset > offset and later.producer_id == batch.producer_id and later.is_control:
                    if later.marker == "abort":
                        return "hidden"
                    break
            else:
                return "open"
        return "committed" if offset in batch.records else "gone"

    def committed(self) -> list[Stored]:
        """The batches that readers of committed records see, once all is written."""
        return [b for b in self.batches if self.fate(b.base_offset) == "committed"]

    def fetch(self, position: int, batches: int, overshoot: int = 0) -> Served:
        """From the batch that holds `position`; the aborted list may reach `overshoot` too far: its index is coarse."""
        stable = self.last_stable
        found = [b for b in self.batches[: self.known] if b.next_offset > position and b.base_offset < stable][:batches]
        until = (found[-1].next_offset if found else position) + overshoot
        return Served(
            found,
            [
                AbortedTransaction(t.producer_id, t.first)
                for t in sorted(self._transactions, key=lambda t: t.marker)
                if not t.committed and position <= t.marker < self.end and t.first < until
            ],
        )


def merged_at_random(rng: Random, batches: Iterable[Stored]) -> list[Stored]:
    """Some batches that follow each other as one: outside transactions of any producers, inside of one."""
    made: list[Stored] = []
    for batch in batches:
        last = made[-1] if made else None
        if (
            last is not None
            and last.is_dense
            and batch.is_dense
            and not (last.is_control or batch.is_control)
            and last.is_transactional == batch.is_transactional
            and (not batch.is_transactional or last.producer_id == batch.producer_id)
            and last.next_offset == batch.base_offset
            and rng.random() < 0.7
        ):
            made[-1] = replace(last, next_offset=batch.next_offset, records=last.records + batch.records)
        else:
            made.append(batch)
    return made


def _transactions(batches: Iterable[Stored]) -> Iterable[_Transaction]:
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.is_control:
            if (first := begun.pop(batch.producer_id, None)) is not None:
                yield _Transaction(batch.producer_id, first, batch.base_offset, batch.marker == "commit")
        elif batch.is_transactional:
            begun.setdefault(batch.producer_id, batch.base_offset)
    yield from (_Transaction(pid, first, 1 << 62, committed=False) for pid, first in begun.items())


def write_log(rng: Random, batches: int, longest: int = 5, start: int = 0, *, hanging: bool = True) -> list[Stored]:
    """Plain batches, interleaved transactions of several producers, their markers, and other control batches."""
    log: list[Stored] = []
    at, begun = start, set[int]()

    def add(records: int, producer_id: int, marker: str = "", *, transactional: bool = False) -> None:
        nonlocal at
        log.append(
            Stored(at, at + records, tuple(range(at, at + records)), producer_id, transactional or bool(marker), marker)
        )
        at += records

    def end(producer_id: int) -> None:
        add(1, producer_id, rng.choice(("commit", "abort")))
        begun.discard(producer_id)

    for _ in range(batches):
        what = rng.random()
        if what < 0.35:
            add(rng.randint(1, longest), rng.choice((PLAIN, 77)))
        elif what < 0.7:
            producer_id = rng.choice(APPLICATIONS)
            begun.add(producer_id)
            add(rng.randint(1, longest), producer_id, transactional=True)
        elif what < 0.95:
            end(rng.choice(sorted(begun) or APPLICATIONS))  # also of a transaction that wrote nothing here
        else:
            add(1, BROKER, "other")
    if not (hanging and rng.random() < 0.3):
        for producer_id in sorted(begun):
            end(producer_id)
    return log
