"""Copies of a mirror that delivers at least once: records may be there again, and nothing else may differ."""

from __future__ import annotations

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

    After a repeat the copy goes on with the record behind the last one that it had: it skips none.
    """
    number = {digest: n for n, digest in enumerate(source.digests)}
    highest, wrong = -1, list[str]()
    for offset, digest in zip(copy.offsets, copy.digests, strict=True):
        n = number.get(digest, -1)
        if n > highest + 1:
            wrong.append(f"{place}: the copy skips {n - highest - 1} record(s) at {offset}")
        highest = max(highest, n)
    last = replace(copy, offsets=copy.offsets[:0], digests=copy.digests[:0])
    for offset, digest in sorted(_last(copy).items()):
        last.add(offset, digest)
    return last, wrong


def _last(copy: Trace) -> Mapping[int, int]:
    """Its records by offset, each where it is for the last time."""
    offsets = dict(zip(copy.digests, copy.offsets, strict=True))
    return {offset: digest for digest, offset in offsets.items()}
