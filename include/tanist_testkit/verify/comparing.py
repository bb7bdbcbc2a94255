"""Record by record: is the copy what the source is? Pure, and it does not know how the copy was made.

lost         at the source, nowhere in the copy
repeated     in the copy more often than at the source
reordered    in the copy before a record that it followed at the source
altered      at its offset in the copy lies a record that the source does not have
misplaced    in the copy and in order, at another offset than expected
foreign      in the copy, at an offset where nothing was expected, and not at the source
bounds       the log starts or ends elsewhere (1 each)
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tanist_testkit.verify.traces import Place, Trace, Traces

Locate: TypeAlias = "Callable[[int], int]"
"""Where a source offset must lie in the copy."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Counts; all 0: the same."""

    lost: int = 0
    repeated: int = 0
    reordered: int = 0
    altered: int = 0
    misplaced: int = 0
    foreign: int = 0
    bounds: int = 0

    def __add__(self, other: Differences) -> Differences:
        return Differences(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def __bool__(self) -> bool:
        return self.total > 0

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(astuple(self))

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in asdict(self).items() if count) or "none"


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """Of one partition, or of many added up. `first`: the first difference in words, empty where there is none.

    `first_at`: (source offset, copy offset) of the record where the first altered one lies, to look at it.
    """

    records: int = 0
    differences: Differences = field(default_factory=Differences)
    first: str = ""
    first_at: tuple[Place, int, int] | None = None

    def __add__(self, other: LogVerdict) -> LogVerdict:
        return LogVerdict(
            self.records + other.records,
            self.differences + other.differences,
            self.first or other.first,
            self.first_at or other.first_at,
        )


def identical(offset: int) -> int:
    """The promise where no run was written."""
    return offset


def compare(place: Place, source: Trace, copy: Trace, locate: Locate = identical) -> LogVerdict:
    """Every record of both, and where both logs begin and end."""
    bounds, first = _bounds(place, source, copy, locate)
    expected = source.offsets if locate is identical else array("q", map(locate, source.offsets))
    if expected == copy.offsets and source.digests == copy.digests:
        return LogVerdict(len(source), Differences(bounds=bounds), first)
    found = _Walk(place, source, copy, locate).differences()
    return LogVerdict(len(source), found.differences(bounds), found.first or first, found.first_at)


def missing(acknowledged: Trace, copy: Trace, locate: Locate = identical) -> int:
    """Records that a broker acknowledged and that are not in the copy, at their offset, as they were written.

    Those whose offset is not known may be anywhere in it.
    """
    there = dict(zip(copy.offsets, copy.digests, strict=True))
    reported = zip(acknowledged.offsets, acknowledged.digests, strict=True)
    anywhere = set(copy.digests) if acknowledged.unplaced else set()
    astray = sum(1 for offset, digest in reported if there.get(locate(offset)) != digest)
    return astray + sum(1 for digest in acknowledged.unplaced if digest not in anywhere)


def absent(acknowledged: Traces, copy: Traces, locate: Callable[[Place], Locate] = lambda _place: identical) -> int:
    """`missing` in all partitions; `locate`: where the records of each must lie."""
    return sum(missing(reported, copy[place], locate(place)) for place, reported in acknowledged.items())


def _bounds(place: Place, source: Trace, copy: Trace, locate: Locate) -> tuple[int, str]:
    wanted, seen = (locate(source.start), locate(source.end)), (copy.start, copy.end)
    wrong = sum(a != b for a, b in zip(wanted, seen, strict=True))
    words = f"{place}: the log is [{seen[0]}, {seen[1]}), expected [{wanted[0]}, {wanted[1]})"
    return wrong, words if wrong else ""


@dataclass(slots=True)
class _Found:
    counts: Counter[str] = field(default_factory=Counter)
    first: str = ""
    first_at: tuple[Place, int, int] | None = None

    def differences(self, bounds: int) -> Differences:
        return Differences(**self.counts, bounds=bounds)


class _Walk:
    """Slow and thorough; only for partitions that are not equal at first sight, or not meant to be."""

    def __init__(self, place: Place, source: Trace, copy: Trace, locate: Locate) -> None:
        self._place = place
        self._source = list(zip(source.offsets, source.digests, strict=True))
        self._locate = locate
        self._copy = list(zip(copy.offsets, copy.digests, strict=True))
        self._found = _Found()

    def differences(self) -> _Found:
        pairs, gone, surplus = _paired(self._source, self._copy, self._locate)
        self._order(pairs)
        self._unmatched(gone, surplus)
        return self._found

    def _order(self, pairs: Iterable[tuple[int, int]]) -> None:
        furthest = -1
        for at, seen in pairs:
            if seen < furthest:
                self._note("reordered", f"the record of {at} lies at {seen}, behind records that followed it", at, seen)
            elif seen != self._locate(at):
                self._note("misplaced", f"the record of {at} lies at {seen}, not at {self._locate(at)}", at, seen)
            furthest = max(furthest, seen)

    def _unmatched(self, gone: dict[int, int], surplus: list[tuple[int, int]]) -> None:
        known = {digest for _, digest in self._source}
        for seen, digest in surplus:
            at = gone.pop(seen, None)
            if at is not None and digest not in known:
                self._note("altered", f"the record of {at} is another one in the copy", at, seen)
            elif digest in known:
                self._note("repeated", f"a record that was there before is there again at {seen}", -1, seen)
                if at is not None:
                    gone[seen] = at
            else:
                self._note("foreign", f"the record at {seen} is not of the source", -1, seen)
        for expected, at in sorted(gone.items()):
            self._note("lost", f"the record of {at} is not there, expected at {expected}", at, expected)

    def _note(self, kind: str, words: str, at: int, seen: int) -> None:
        self._found.counts[kind] += 1
        if not self._found.first:
            self._found.first = f"{self._place}: {words}"
            self._found.first_at = (self._place, at, seen)


def _paired(
    source: list[tuple[int, int]], copy: list[tuple[int, int]], locate: Locate
) -> tuple[list[tuple[int, int]], dict[int, int], list[tuple[int, int]]]:
    """Who is who: a record at its place comes first, else the first equal one that is left.

    Returns (source offset, copy offset) of records that are the same, the source records without one by expected
    offset, and the records of the copy without one.
    """
    wanted = {locate(offset): (offset, digest) for offset, digest in source}
    at_place = {seen for seen, digest in copy if seen in wanted and wanted[seen][1] == digest}
    spare: defaultdict[int, list[int]] = defaultdict(list)
    for seen, digest in reversed(copy):
        if seen not in at_place:
            spare[digest].append(seen)
    pairs: list[tuple[int, int]] = []
    gone: dict[int, int] = {}
    for expected, (offset, digest) in wanted.items():
        if expected in at_place:
            pairs.append((offset, expected))
        elif spare[digest]:
            pairs.append((offset, spare[digest].pop()))
        else:
            gone[expected] = offset
    left = {seen for seens in spare.values() for seen in seens}
    return pairs, gone, [(seen, digest) for seen, digest in copy if seen in left]


def scattered(acknowledged: Trace, copy: Trace) -> int:
    """Absent records with a present one behind them: a copy that was cut off at its end has none."""
    there = dict(zip(copy.offsets, copy.digests, strict=True))
    reported = sorted(zip(acknowledged.offsets, acknowledged.digests, strict=True))
    present = [there.get(offset) == digest for offset, digest in reported]
    last = max((number for number, found in enumerate(present) if found), default=-1)
    return present[: last + 1].count(False)
