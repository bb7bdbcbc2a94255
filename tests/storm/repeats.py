"""Copies of a mirror that delivers at least once: records may be there again, and nothing else may differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.verify.traces import Place, Trace, Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """`copies`: with the last one of each record only. `wrong`: in words, where a copy goes on with a later record."""

    copies: Traces
    count: int
    wrong: tuple[str, ...]

    @classmethod
    def of(cls, source: Traces, copies: Traces) -> Repeats:
        found = {place: _once(place, trace, copies[place]) for place, trace in source.items()}
        return cls(
            copies=copies | {place: last for place, (last, _) in found.items()},
            count=sum(len(copies[place]) - len(last) for place, (last, _) in found.items()),
            wrong=tuple(why for _, some in found.values() for why in some),
        )


def _once(place: Place, source: Trace, copy: Trace) -> tuple[Trace, list[str]]:
    """The last copy of each record; and what is wrong with the order of all of them.

    After a repeat the copy goes on with the record behind the last one that it had: it skips none. A source may have
    equal records, and a copy of each.
    """
    numbers: defaultdict[int, list[int]] = defaultdict(list)
    for n, digest in enumerate(source.digests):
        numbers[digest].append(n)
    highest, wrong = -1, list[str]()
    for offset, digest in zip(copy.offsets, copy.digests, strict=True):
        n = max((each for each in numbers[digest] if each <= highest + 1), default=min(numbers[digest], default=-1))
        if n > highest + 1:
            wrong.append(f"{place}: the copy skips {n - highest - 1} record(s) at {offset}")
        highest = max(highest, n)
    return _last(copy, Counter(source.digests)), wrong


def _last(copy: Trace, wanted: Mapping[int, int]) -> Trace:
    """Its records where they are for the last time; of equal records as many as are `wanted`."""
    seen, kept = Counter[int](), list[tuple[int, int]]()
    for offset, digest in zip(reversed(copy.offsets), reversed(copy.digests), strict=True):
        seen[digest] += 1
        if seen[digest] <= max(1, wanted.get(digest, 0)):
            kept.append((offset, digest))
    last = replace(copy, offsets=copy.offsets[:0], digests=copy.digests[:0])
    for offset, digest in reversed(kept):
        last.add(offset, digest)
    return last
