"""Random histories of a source and its copy, and what a copier may do to a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.spark.oracle import Entry, Fate, History

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What happens: shares of records (0 to 1), or numbers."""

    alike: float = 0.0
    """Records like one shortly before them."""
    uniform: float = 0.0
    """Whether most records are one and the same."""
    gaps: float = 0.0
    """Offsets of the source that hold nothing, and markers at the destination."""
    transactions: float = 0.0
    open: float = 0.0
    """Whether one of them stays open."""
    dirty: float = 0.0
    """Whether open and aborted records are copied, too."""
    lost: float = 0.0
    rewinds: int = 0
    late: float = 0.0
    """Records that come later than they should."""
    foreign: float = 0.0
    growth: float = 0.0
    """Of the source, after the look at the destination."""
    trimmed: float = 0.0
    compacted: float = 0.0
    pending: float = 0.0
    """Whether the destination ends in an open transaction of its own."""


DAMAGES = {
    "nothing": Damage(),
    "gaps": Damage(gaps=0.2, growth=0.3),
    "losses": Damage(lost=0.2, gaps=0.1, growth=0.3),
    "rewinds": Damage(rewinds=4, gaps=0.1),
    "late": Damage(late=0.15, lost=0.05, rewinds=1),
    "alike": Damage(alike=0.5, rewinds=3, lost=0.1, late=0.05),
    "uniform": Damage(uniform=0.9, rewinds=2, lost=0.1, foreign=0.05),
    "transactions": Damage(transactions=0.4, rewinds=2, dirty=0.5, growth=0.2),
    "open": Damage(transactions=0.3, open=0.9, dirty=0.7, rewinds=2, growth=0.4),
    "deleted": Damage(trimmed=0.5, compacted=0.2, rewinds=1, foreign=0.1),
    "pending": Damage(pending=0.9, rewinds=2, alike=0.2),
    "everything": Damage(
        alike=0.2,
        uniform=0.1,
        gaps=0.1,
        transactions=0.3,
        open=0.4,
        dirty=0.5,
        lost=0.1,
        rewinds=3,
        late=0.05,
        foreign=0.05,
        growth=0.3,
        trimmed=0.3,
        compacted=0.1,
        pending=0.3,
    ),
}


def a_history(rng: Random, size: int, damage: Damage) -> History:
    """Both logs after all that happens to them."""
    history = History()
    _write(rng, history, size, damage)
    until = history.end if rng.random() >= damage.growth else rng.randint(0, history.end)
    as_copied(rng, history, [offset for offset in history.source if offset < until], damage)
    _age(rng, history, damage)
    return history


def an_identity(rng: Random, n: int) -> int:
    """Of the n-th record: what follows from its number are its time and place, the rest is its own."""
    return n << 32 | rng.getrandbits(32)


def _write(rng: Random, history: History, size: int, damage: Damage) -> None:
    offset, recent = 0, list[int]()
    uniform = an_identity(rng, size // 2) if rng.random() < damage.uniform * 2 else None
    opened = rng.randint(0, size) if rng.random() < damage.open else size
    fate, left = Fate.COMMITTED, 0
    for n in range(size):
        if not left:
            fate, left = Fate.COMMITTED, rng.randint(1, 6)
            if rng.random() < damage.transactions:
                fate = rng.choice((Fate.COMMITTED, Fate.ABORTED))
                offset += 1  # the marker of the one before
        left -= 1
        identity = an_identity(rng, n)
        if recent and rng.random() < damage.alike:
            identity = rng.choice(recent[-4:])
        if uniform is not None and rng.random() < damage.uniform:
            identity = uniform
        recent.append(identity)
        history.source[offset] = Entry(
            identity, Fate.OPEN if n >= opened and (n == opened or rng.random() < 0.5) else fate
        )
        offset += 1 + (rng.randint(1, 3) if rng.random() < damage.gaps else 0)
    history.end = offset


def as_copied(rng: Random, history: History, offsets: Sequence[int], damage: Damage) -> None:
    """What a copier makes of the records at `offsets`."""
    dirty = rng.random() < damage.dirty
    stable = history.last_stable
    readable = [o for o in offsets if dirty or (history.source[o].fate is Fate.COMMITTED and o < stable)]
    there = rng.choice((0, 3))
    for offset in _written(rng, readable, damage):
        if rng.random() < damage.foreign:
            history.destination[there] = an_identity(rng, rng.randrange(len(readable)))
            there += 1
        if rng.random() < damage.gaps:
            there += rng.randint(1, 3)
        history.destination[there] = history.source[offset].identity
        there += 1
    history.destination_end = there
    if rng.random() < damage.pending:
        for offset in rng.sample(readable, min(len(readable), rng.randint(1, 5))):
            history.undecided[there] = history.source[offset].identity
            there += rng.randint(1, 2)


def _written(rng: Random, readable: Sequence[int], damage: Damage) -> list[int]:
    """The source offsets in the order of the copy."""
    written: list[int] = []
    late: list[int] = []
    for begin, end in passes(rng, len(readable), damage.rewinds):
        for offset in readable[begin:end]:
            if rng.random() < damage.late:
                late.append(offset)
            elif rng.random() >= damage.lost:
                written.append(offset)
            if late and rng.random() < 0.2:
                written.append(late.pop(rng.randrange(len(late))))
    return written + late


def passes(rng: Random, until: int, rewinds: int) -> list[tuple[int, int]]:
    """Stretches that are copied one after the other: each begins where the last one ended, or before."""
    begin, found = 0, []
    for stop in [rng.randint(0, until) for _ in range(rng.randint(0, rewinds))]:
        found.append((begin, max(begin, stop)))
        begin = rng.randint(0, max(begin, stop))
    return [*found, (begin, until)]


def _age(rng: Random, history: History, damage: Damage) -> None:
    """Retention and compaction, of either log; of the source also between the looks. No open record is deleted."""
    last = int(history.last_stable * damage.trimmed * rng.random())
    for offset, entry in history.source.items():
        if offset < last or (offset < history.last_stable and rng.random() < damage.compacted):
            history.source[offset] = Entry(entry.identity, entry.fate, deleted=True)
    first = int(history.destination_end * damage.trimmed * rng.random())
    for offset in list(history.destination):
        if offset < first or rng.random() < damage.compacted:
            del history.destination[offset]
