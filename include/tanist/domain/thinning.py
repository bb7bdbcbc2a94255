"""What becomes of old pieces of the offset map of a mapped copy: a step at a time, each of which may be done again.

Nothing is deleted whose content is not in a record that was read before, and no record replaces one that says more: so
steps of two workers, one of which was asleep, do no harm in any order.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final

from tanist.domain.anchors import OffsetAnchorsWritten, anchored, joined
from tanist.domain.mapped_runs import OffsetRangesWritten, records_of
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANCHOR_BYTES: Final = 16 << 20
"""Of the copy: between two anchors, and from the last one to the end of the copy."""
MOST_PIECES: Final = 256
"""Of ranges that one step reads."""
MOST_CHARACTERS: Final = 256 << 10
"""Of their text; a record of the state topics has at most a megabyte."""
JOIN_PIECES: Final = 16
"""So many records of anchors become one, as long as its text has not more than `JOIN_CHARACTERS`."""
JOIN_CHARACTERS: Final = 4 << 10
WORTH_PERCENT: Final = 75
"""Anchors that take more than so much of what they replace are not written."""
RECORD_CHARACTERS: Final = 250
"""Of a stored record, beside its ranges: names, key, and what the broker adds."""

Piece = OffsetRangesWritten | OffsetAnchorsWritten


@dataclass(frozen=True, slots=True)
class ThinningStep:
    """Write the one, and once that is acknowledged delete the other, by its keys.

    `looked_until`: pieces before this source offset need not be looked at again.
    """

    written: tuple[OffsetAnchorsWritten, ...] = ()
    deleted: tuple[str, ...] = ()
    looked_until: SourceOffset = SourceOffset(0)  # noqa: RUF009


NOTHING: Final = ThinningStep()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOnRecord:
    """What is published of the map of one partition.

    `log_start`: of the copy. `unpublished`: bytes of the copy behind the last piece. `thins`: its log gives back what
    anchors leave out; not that of a topic that is compacted. `looked_until`: as the last step of this worker said.
    """

    ranges: Sequence[OffsetRangesWritten]
    anchors: Sequence[OffsetAnchorsWritten]
    log_start: DestinationOffset
    unpublished: int = 0
    thins: bool = True
    looked_until: SourceOffset = SourceOffset(0)  # noqa: RUF009
    anchor_bytes: int = ANCHOR_BYTES


def next_step(of: MapOnRecord) -> ThinningStep:
    """What is to be done next. Raises UnreadableRanges."""
    pieces: list[Piece] = [*of.anchors, *of.ranges]
    pieces.sort(key=lambda each: (each.source, isinstance(each, OffsetRangesWritten), -each.until))
    gone = tuple(_covered(pieces)) or tuple(_expired(pieces, of.log_start))
    if gone:
        return ThinningStep(deleted=gone, looked_until=of.looked_until)
    if not of.thins:
        return NOTHING
    return _far_behind(of, pieces) or _join(pieces, of.looked_until)


# ── what others have ──────────────────────────────────────────────────────────────────────────────────────────────


def _covered(pieces: Sequence[Piece]) -> Iterator[str]:
    """Those that lie within anchors, or within another piece of their kind.

    A piece ends with where the copy went on then, which is behind where the next one begins. So one that anchors have
    replaced may end within the piece that they end at.
    """
    anchors: OffsetAnchorsWritten | None = None
    ranges: OffsetRangesWritten | None = None
    reach: dict[SourceOffset, SourceOffset] = {}
    for each in pieces:
        reach[each.source] = max(each.until, reach.get(each.source, each.until))
    for each in pieces:
        wider = anchors if isinstance(each, OffsetAnchorsWritten) else ranges
        if wider is not None and each.until <= wider.until:
            yield each.key
        elif isinstance(each, OffsetAnchorsWritten):
            anchors = each
        elif anchors is not None and each.source < anchors.until and each.until <= reach.get(anchors.until, 0):
            yield each.key
        else:
            ranges = each


def _expired(pieces: Sequence[Piece], log_start: DestinationOffset) -> Iterator[str]:
    """Pieces of which no record is left. The first one that stays begins below the log start: older ones are gone."""
    for each, following in pairwise(pieces):
        if following.first.destination >= log_start:
            return
        yield each.key


# ── what is far behind the end ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Group:
    """Pieces of ranges, and the first one behind them."""

    pieces: list[OffsetRangesWritten] = field(default_factory=list)
    size: int = 0
    characters: int = 0

    def take(self, piece: OffsetRangesWritten) -> None:
        self.pieces.append(piece)
        self.size += piece.size
        self.characters += len(piece.ranges)

    def is_enough(self, size: int) -> bool:
        """Whether it is as large as what lies between two anchors, or as much as one step reads."""
        return self.size >= size or len(self.pieces) >= MOST_PIECES or self.characters >= MOST_CHARACTERS


def _far_behind(of: MapOnRecord, pieces: Sequence[Piece]) -> ThinningStep | None:
    """Anchors for the first ranges that are far from the end and enough for one; None: there are none.

    A group of pieces ends where anchors follow: nothing is known in detail behind it. Pieces before a part of the map
    that is lost stay as they are: no count of records reaches over it.
    """
    behind = of.unpublished + sum(each.size for each in of.ranges)
    group, reached = _Group(), SourceOffset(0)
    for each, following in pairwise(pieces):
        reached = max(reached, each.until)
        if isinstance(each, OffsetAnchorsWritten):
            continue
        behind -= each.size
        if behind < of.anchor_bytes:
            return None
        if following.source > reached:
            group = _Group()
            continue
        if following.source <= of.looked_until:
            continue
        group.take(each)
        if group.is_enough(of.anchor_bytes) or isinstance(following, OffsetAnchorsWritten):
            return _thinned(group, following, of.anchor_bytes)
    return None


def _thinned(group: _Group, following: Piece, most: int) -> ThinningStep:
    """Of ranges that no anchor makes much shorter, as the source left out that much, all stay."""
    end = following.first
    runs = tuple(_without_outdated(group, end))
    first = group.pieces[0]
    made = anchored(first.mirror, first.mirror_id, first.partition, runs, tuple(_chosen(group, runs, most)))
    before = sum(len(each.ranges) + RECORD_CHARACTERS for each in group.pieces)
    if 100 * (len(made.anchors) + len(made.numbers) + RECORD_CHARACTERS) > WORTH_PERCENT * before:
        return ThinningStep(looked_until=end.source)
    keys = tuple(each.key for each in group.pieces)
    return ThinningStep((made,), keys, looked_until=end.source)


def _without_outdated(group: _Group, end: OffsetRange) -> Iterator[OffsetRange]:
    """The ranges up to `end`. Where a copy went on once is outdated if aborted records lie there by now."""
    runs = sorted({*(run for each in group.pieces for run in each.runs if run.source <= end.source), end})
    reached = -1
    for run, following in zip_longest(runs, runs[1:]):
        again = following is not None and following.source == run.source
        if run.destination >= reached and not again:
            reached = run.destination
            yield run


def _chosen(group: _Group, runs: Sequence[OffsetRange], most: int) -> Iterator[OffsetRange]:
    """Of `runs` the first, the last, and so many that a walk has at most `most` bytes.

    A range that has more itself gets an anchor behind its last record, too: then it needs no walk.
    """
    sizes = _Sizes(group, runs[-1].destination)
    last = runs[0]
    yield last
    for run, following in pairwise(runs):
        if sizes.between(last, following) <= most:
            continue
        if run is not last:
            yield run
            last = run
        if sizes.between(run, following) > most:
            count = records_of(run, following)
            ends = OffsetRange(SourceOffset(run.source + count), DestinationOffset(run.destination + count))
            if run.destination < ends.destination < following.destination:
                yield ends
            yield following
            last = following
    if last is not runs[-1]:
        yield runs[-1]


class _Sizes:
    """How many bytes of the copy lie between ranges: in equal parts over the offsets of a piece."""

    def __init__(self, group: _Group, end: DestinationOffset) -> None:
        self._begins = [each.first.destination for each in group.pieces]
        self._ends = [*self._begins[1:], end]
        self._sizes = [each.size for each in group.pieces]
        self._before = [0]
        for each in self._sizes:
            self._before.append(self._before[-1] + each)

    def between(self, one: OffsetRange, other: OffsetRange) -> int:
        """Bytes of the copy."""
        return self._up_to(other.destination) - self._up_to(one.destination)

    def _up_to(self, offset: DestinationOffset) -> int:
        i = max(0, bisect_right(self._begins, offset) - 1)
        length = max(1, self._ends[i] - self._begins[i])
        return self._before[i] + self._sizes[i] * min(offset - self._begins[i], length) // length


# ── many small records ────────────────────────────────────────────────────────────────────────────────────────────


def _join(pieces: Sequence[Piece], looked_until: SourceOffset) -> ThinningStep:
    """The last anchors become one record, as they are many."""
    group: list[OffsetAnchorsWritten] = []
    characters = 0
    for each in reversed(pieces):
        if isinstance(each, OffsetRangesWritten) and not group:
            continue
        if isinstance(each, OffsetRangesWritten) or (group and each.until != group[-1].source):
            break
        characters += len(each.anchors) + len(each.numbers)
        if characters > JOIN_CHARACTERS:
            break
        group.append(each)
    if len(group) < JOIN_PIECES:
        return ThinningStep(looked_until=looked_until)
    return ThinningStep((joined(group[::-1]),), tuple(each.key for each in group), looked_until)
