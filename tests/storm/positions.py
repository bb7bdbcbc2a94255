"""Random positions after a storm, translated by `tanist offsets lookup`, and where they must lead."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from tanist_testkit.sandbox.command_line import CommandLine
    from tanist_testkit.verify.traces import Place, Trace

Pairs: TypeAlias = "Sequence[tuple[int, int]]"
"""Of each record that both logs have: its offset at the source, and its last one in the copy; in order."""

MANY: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One that was translated. `to`: where it leads, None: nobody knows."""

    place: Place
    offset: int
    to: int | None
    precision: str

    def error(self, pairs: Pairs) -> str:
        """What is wrong with it; empty: nothing.

        A reader who goes on there reads the next record of the source first. Where it is not exact, records may come
        again before it.
        """
        n = bisect_left(pairs, (self.offset,))
        before, after = (pairs[n - 1][1] if n else -1), (pairs[n][1] if n < len(pairs) else None)
        if self.to is None:
            return f"{self.place}: nobody knows where {self.offset} leads"
        if after is not None and self.to > after:
            return f"{self.place}: {self.offset} leads to {self.to}, behind the next record at {after}"
        if self.precision == "exact" and self.to <= before:
            return f"{self.place}: {self.offset} leads to {self.to}, and {before} comes before it"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """How many positions are exact, conservative and unknown; `wrong`: in words, those that lead elsewhere."""

    precisions: Mapping[str, int] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()

    @classmethod
    def of(cls, positions: Iterable[Position], pairs: Mapping[Place, Pairs]) -> Translated:
        found = list(positions)
        return cls(
            precisions=dict(Counter(each.precision for each in found)),
            wrong=tuple(filter(None, (each.error(pairs[each.place]) for each in found))),
        )


def paired(source: Trace, copy: Trace) -> Pairs:
    """The records of one partition that both have, by their digests; of equal ones the last with the last."""
    there: defaultdict[int, list[int]] = defaultdict(list)
    for offset, digest in zip(copy.offsets, copy.digests, strict=True):
        there[digest].append(offset)
    here = zip(reversed(source.offsets), reversed(source.digests), strict=True)
    return [(offset, there[digest].pop()) for offset, digest in here if there[digest]][::-1]


def drawn(extents: Mapping[Place, tuple[int, int]], count: int, dice: Random) -> list[tuple[Place, int]]:
    """So many positions in these logs, of which each has a start and an end."""
    places = sorted(place for place, (start, end) in extents.items() if end > start)
    return [(place, dice.randint(*extents[place])) for place in dice.choices(places, k=count)]


def looked_up(tanist: CommandLine, mirror: str, wanted: Sequence[tuple[Place, int]], file: Path) -> list[Position]:
    """What the command says of each. `file`: where it finds them."""
    asked = [{"topic": place.topic, "partition": place.partition, "offset": offset} for place, offset in wanted]
    file.write_text(json.dumps(asked), encoding="utf-8")
    items = tanist.run("offsets", "lookup", mirror, "--file", str(file), verdict=True)
    return [_position(place, offset, item) for (place, offset), item in zip(wanted, items, strict=True)]


def _position(place: Place, offset: int, item: Mapping[str, Any]) -> Position:
    assert (item["topic"], item["partition"], item["source_offset"]) == (*place, offset), item
    return Position(place=place, offset=offset, to=item["destination_offset"], precision=item["precision"])
