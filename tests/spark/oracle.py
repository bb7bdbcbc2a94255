"""A brute-force judge of reconciliations: it knows of every record what became of it, and looks at each by itself.

A *history* is a source and its copy, record by record, with everything that happens to both. What a reader may see of
it is what a job reads; what the judge holds the answers against is all of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from tanist.domain.translation import Precision
from tanist.spark.reconciliation.exclusive import Counts
from tanist.spark.reconciliation.occurrences import NOWHERE, Log
from tanist.spark.reconciliation.pairing import pair
from tanist.spark.reconciliation.positions import Ends, translate
from tanist.spark.reconciliation.runs import (
    Runs,
    compress,
    compress_bounds,
    compress_extras,
    join,
    merge,
    merge_extras,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.spark.reconciliation.positions import Translated


class Fate(StrEnum):
    """What becomes of a record."""

    COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the source."""

    identity: int
    fate: Fate
    deleted: bool = False


@dataclass(slots=True)
class History:
    """Offsets without an entry hold nothing, or a marker. `last_stable`, `end`: of the source, at the second look."""

    source: dict[int, Entry] = field(default_factory=dict)
    end: int = 0
    destination: dict[int, int] = field(default_factory=dict)
    undecided: dict[int, int] = field(default_factory=dict)
    """Identities by offset, behind `destination`."""
    destination_end: int = 0

    @property
    def last_stable(self) -> int:
        return min((offset for offset, entry in self.source.items() if entry.fate is Fate.OPEN), default=self.end)

    def seen(self) -> dict[int, int]:
        """What a job reads of the source: committed records, and all behind the last stable offset."""
        stable = self.last_stable
        return {
            offset: entry.identity
            for offset, entry in self.source.items()
            if not entry.deleted and (offset >= stable or entry.fate is Fate.COMMITTED)
        }

    def pairs(self) -> dict[int, int]:
        """How many of each identity have a copy: as many as there are on either side, the fewer."""
        here, there = Counter(self.seen().values()), Counter(self.destination.values())
        return dict(here & there)

    def counts(self) -> Mapping[str, int]:
        """The true numbers, but for `moved` and `runs`."""
        seen, left = self.seen(), self.pairs()
        paired = set()
        for offset in sorted(seen, reverse=True):
            if left.get(seen[offset], 0):
                left[seen[offset]] -= 1
                paired.add(offset)
        committed = {offset for offset in seen if offset < self.last_stable}
        copied, lost = committed & paired, committed - paired
        last = max(copied, default=-1)
        known = Counter(identity for identity in self.destination.values() if identity in set(seen.values()))
        return {
            "copied": len(copied),
            "lost": len(lost),
            "behind": sum(offset > last for offset in lost),
            "repeated": known.total() - sum(self.pairs().values()),
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What a job has found of a history."""

    runs: Runs
    extras: Runs
    positions: Sequence[Translated]
    counts: Counts
    bounds: Runs = field(default_factory=Runs.none)


def reconciled(history: History, parts: int = 1) -> Told:
    """As the job does it, without Spark: records of one identity in one part."""
    seen, stable = history.seen(), history.last_stable
    runs, extras, bounds = [], [], []
    for part in range(parts):
        ours, theirs, undecided = (
            log({offset: identity for offset, identity in each.items() if identity % parts == part})
            for each in (seen, history.destination, history.undecided)
        )
        found = pair(ours, theirs, undecided)
        runs.append(join(compress(ours.offsets, found.copies)))
        extras.append(compress_extras(found))
        bounds.append(compress_bounds(ours.offsets, found))
    every, others, back = merge(runs, stable), merge_extras(extras), join(together(bounds))
    positions = translate(every, others, Ends(stable, history.end), range(-1, history.end + 4), back)
    return Told(every, others, positions, Counts.of(every, others, stable, history.destination_end), back)


def log(records: Mapping[int, int]) -> Log:
    offsets = sorted(records)
    return Log(np.array(offsets, np.int64), np.array([records[offset] for offset in offsets], np.int64))


# ── the judgement ─────────────────────────────────────────────────────────────────────────────────────────────────


def faults(history: History, told: Told) -> list[str]:
    """Whatever of it is not true."""
    return [*_wrong_runs(history, told), *_wrong_counts(history, told), *wrong_positions(history, told.positions)]


def _wrong_runs(history: History, told: Told) -> Iterable[str]:
    """Every record is in one run, of the kind it has."""
    seen, everything = history.seen(), {**history.destination, **history.undecided}
    pairs = dict(_pairs(told.runs, seen))
    if set(pairs) != set(seen):
        yield f"records of no run: {sorted(set(seen) ^ set(pairs))}"
    copies = [copy for copy in pairs.values() if copy != NOWHERE]
    others = dict(_others(told.extras))
    if sorted([*copies, *others]) != sorted(everything):
        yield f"copies in no run, or in two: {sorted([*copies, *others])} of {sorted(everything)}"
    for offset, copy in pairs.items():
        if copy != NOWHERE and history.destination.get(copy) != seen[offset]:
            yield f"{offset} is not what lies at {copy}"
    for copy, origin in others.items():
        like = [offset for offset, identity in seen.items() if identity == everything.get(copy)]
        if origin != min(like, default=NOWHERE):
            yield f"{copy} is said to be like {origin}, not {like}"


def _pairs(runs: Runs, seen: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    for source, there, length in zip(
        runs.source.tolist(), runs.destination.tolist(), runs.length.tolist(), strict=True
    ):
        for offset in range(source, source + length):
            if offset in seen:
                yield offset, NOWHERE if there == NOWHERE else there + offset - source


def _others(extras: Runs) -> Iterable[tuple[int, int]]:
    rows = zip(extras.source.tolist(), extras.destination.tolist(), extras.length.tolist(), strict=True)
    for origin, there, length in rows:
        for n in range(length):
            yield there + n, NOWHERE if origin == NOWHERE else origin + n


def _wrong_counts(history: History, told: Told) -> Iterable[str]:
    for name, true in history.counts().items():
        if getattr(told.counts, name) != true:
            yield f"{name}: {getattr(told.counts, name)}, not {true}"
    pairs = sorted(_pairs(told.runs, history.seen()))
    copies = [copy for offset, copy in pairs if copy != NOWHERE and offset < history.last_stable]
    moved = len(copies) - _longest_in_order(copies)
    if told.counts.moved != moved:
        yield f"moved: {told.counts.moved}, not {moved}"


def _longest_in_order(copies: Sequence[int]) -> int:
    best: list[int] = []
    for i, copy in enumerate(copies):
        best.append(1 + max((best[j] for j in range(i) if copies[j] < copy), default=0))
    return max(best, default=0)


def wrong_positions(history: History, positions: Iterable[Translated]) -> Iterable[str]:
    """None leaves a record out, exact ones are, and none brings more again than it says."""
    for told in positions:
        position, there = told.source, told.destination
        unknown = position < 0 or position > history.end or not history.pairs()
        if unknown or there is None:
            if not unknown or there is not None:
                yield f"{told}: unknown is {unknown}"
            continue
        left_out = _left_out(history, position, there)
        if left_out:
            yield f"{told}: leaves out {left_out}"
        read_again = _read_again(history, position, there)
        if read_again > told.again:
            yield f"{told}: {read_again} records come again"
        if told.precision is Precision.EXACT and (read_again or not _next_comes(history, position, there)):
            yield f"{told}: is not exact"


def _left_out(history: History, position: int, there: int) -> Counter[int]:
    """Of what is to be read, and was copied, what does not come. An open transaction may be committed."""
    to_come = Counter(identity for offset, identity in history.seen().items() if offset >= position)
    copied = Counter(history.destination.values())
    delivered = Counter(identity for offset, identity in history.destination.items() if offset >= there)
    return (to_come & copied) - delivered


def _read_again(history: History, position: int, there: int) -> int:
    """Records that come and are not to come, of such as were read: also what has been deleted since was.

    Copies of what was written later are none of these, and be it aborted.
    """
    ever = history.source.items()
    read = {entry.identity for offset, entry in ever if offset < position and entry.fate is not Fate.ABORTED}
    to_come = Counter(entry.identity for offset, entry in ever if offset >= position)
    both = {**history.destination, **history.undecided}
    delivered = Counter(identity for offset, identity in both.items() if offset >= there and identity in read)
    return (delivered - to_come).total()


def _next_comes(history: History, position: int, there: int) -> bool:
    """The next committed record is the first that comes; or nothing comes, and nothing of what follows is copied."""
    both = {**history.destination, **history.undecided}
    first = min((offset for offset in both if offset >= there), default=None)
    seen = history.seen()
    following = [offset for offset in sorted(seen) if offset >= position]
    if first is None:
        return not any(seen[offset] in set(history.destination.values()) for offset in following) or not following
    return bool(following) and following[0] < history.last_stable and seen[following[0]] == both[first]
