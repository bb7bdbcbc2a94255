"""Logs and copies of them with everything that happens to copies, made record by record: the truth is known."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tanist.spark.reconciliation.occurrences import NOWHERE, Log

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What may happen to a log and its copy: shares of records (0 to 1), or numbers."""

    alike: float = 0.0
    """Records that look like one shortly before them."""
    gaps: float = 0.0
    """Offsets that the source spends on markers."""
    surplus: float = 0.0
    """Offsets that the copy spends on markers, records of others included."""
    lost: float = 0.0
    rewinds: int = 0
    compacted: float = 0.0
    """Of either log, after copying."""
    trimmed: float = 0.0
    """Of the head of either log, after copying."""
    lag: float = 0.0
    """Of the tail, not copied."""


@dataclass(slots=True)
class Copied:
    """Both logs as they are read, offset and identity; `origin`: of which source offset each copy is, by offset."""

    source: dict[int, int] = field(default_factory=dict)
    destination: dict[int, int] = field(default_factory=dict)
    origin: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    """The source before anything of it was deleted."""

    def last_copies(self) -> dict[int, int]:
        """The truth: source offset to destination offset, of records that both logs still hold."""
        return {source: copy for copy, source in sorted(self.origin.items()) if source in self.source}

    def logs(self) -> tuple[Log, Log]:
        return _log(self.source), _log(self.destination)


def _log(records: dict[int, int]) -> Log:
    offsets = sorted(records)
    return Log(np.array(offsets, np.int64), np.array([records[o] for o in offsets], np.int64))


def a_source(rng: Random, size: int, fate: Fate) -> dict[int, int]:
    records: dict[int, int] = {}
    offset = rng.choice((0, 0, 7))
    for _ in range(size):
        recent = list(records.values())[-4:]
        identity = rng.choice(recent) if recent and rng.random() < fate.alike else rng.getrandbits(63)
        records[offset] = identity
        offset += 1 + (rng.randint(1, 3) if rng.random() < fate.gaps else 0)
    return records


def a_copy(rng: Random, size: int, fate: Fate) -> Copied:
    """A copy that goes back now and then, begins and ends somewhere, and both logs after their retention."""
    done = Copied(source=a_source(rng, size, fate))
    done.written = dict(done.source)
    offsets = list(done.source)
    until = len(offsets) - int(len(offsets) * fate.lag * rng.random())
    there = rng.choice((0, 3))
    for begin, end in _passes(rng, until, fate.rewinds):
        for source in offsets[begin:end]:
            if rng.random() < fate.surplus:
                if rng.random() < 0.5:
                    done.destination[there] = rng.getrandbits(63)
                there += rng.randint(1, 3)
            if rng.random() < fate.lost:
                continue
            done.destination[there], done.origin[there] = done.source[source], source
            there += 1
    _age(rng, done, fate)
    return done


def _passes(rng: Random, until: int, rewinds: int) -> list[tuple[int, int]]:
    """Stretches of the source that are copied one after the other: each begins where the last one ended, or before."""
    stops = [rng.randint(0, until) for _ in range(rng.randint(0, rewinds))]
    begin, passes = 0, []
    for stop in stops:
        passes.append((begin, max(begin, stop)))
        begin = rng.randint(0, max(begin, stop))
    return [*passes, (begin, until)]


def _age(rng: Random, done: Copied, fate: Fate) -> None:
    for log in (done.source, done.destination):
        gone = set(list(log)[: int(len(log) * fate.trimmed * rng.random())])
        gone |= {offset for offset in log if rng.random() < fate.compacted}
        for offset in gone:
            del log[offset]
    done.origin = {copy: source for copy, source in done.origin.items() if copy in done.destination}


# ── what a translation is held against ────────────────────────────────────────────────────────────────────────────


def skipped(done: Copied, position: int, there: int) -> list[int]:
    """Records that are to be read from `position` on and that a reader from `there` on does not get, though copied."""
    return [source for source, copy in done.last_copies().items() if source >= position and copy < there]


def too_few(done: Copied, position: int, there: int) -> list[int]:
    """Identities of which a reader from `there` on gets fewer than are to come and have been copied."""
    to_come, delivered, copied = (
        _counts(records, start)
        for records, start in (
            (done.source, position),
            (done.destination, there),
            (done.destination, 0),
        )
    )
    return [i for i, count in to_come.items() if delivered.get(i, 0) < min(count, copied.get(i, 0))]


def _counts(records: dict[int, int], start: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for offset, identity in records.items():
        if offset >= start:
            found[identity] = found.get(identity, 0) + 1
    return found


def largest_in_order(done: Copied, position: int) -> int:
    """The largest offset from which the copy still delivers all records from `position` on, in their order."""
    left = [identity for offset, identity in sorted(done.source.items()) if offset >= position]
    for offset, identity in sorted(done.destination.items(), reverse=True):
        if left and left[-1] == identity:
            left.pop()
            if not left:
                return offset
    return NOWHERE


def bounds(done: Copied, position: int) -> tuple[int, int]:
    """The last copy of the record before `position`, and the smallest of those from it on."""
    pairs = sorted(done.last_copies().items())
    at = bisect_left(pairs, (position, NOWHERE))
    first = min(done.destination, default=0)
    return pairs[at - 1][1] if at else first - 1, min((copy for _, copy in pairs[at:]), default=1 << 62)
