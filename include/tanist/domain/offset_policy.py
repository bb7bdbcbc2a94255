"""How the offsets of a mirror relate: what of the source a copy has, and where in the copy a source offset is.

Identical offsets: ranges on record say where a partition of it differs. Mapped ones: ranges say where everything is, up
to where the copy goes on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from tanist.domain.names import SourceOffset
from tanist.domain.offset_map import BEFORE_ALL, AnchoredSpan, OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView

_IDENTICAL = OffsetMap()
_NOTHING_COPIED = OffsetMap(until=SourceOffset(0))


_NONE: Mapping[MirrorPartition, CopiedPosition] = MappingProxyType({})
_ALL_READ: Mapping[MirrorPartition, str] = MappingProxyType({})
_Stretch: TypeAlias = tuple[OffsetRange, OffsetRange]
"""From the first range of a piece to its last one, which is where the copy went on then."""


@dataclass(frozen=True, slots=True)
class OffsetPolicy:
    """Of one mirror, as it was read from `__mirror_offsets`, and if its offsets are mapped from its own positions."""

    _maps: Mapping[MirrorPartition, OffsetMap] = field(default_factory=dict)
    _otherwise: OffsetMap = _IDENTICAL

    @classmethod
    def of(
        cls,
        view: StateView,
        spec: MirrorSpec,
        positions: Mapping[MirrorPartition, CopiedPosition] = _NONE,
        unread: Mapping[MirrorPartition, str] = _ALL_READ,
    ) -> Self:
        """From a view of `__mirror_offsets`; of mapped offsets also from the `positions` that the copy has now.

        Without a position a mapped partition is known as far as its ranges were published; `unread` says why there is
        none. Positions must be read before the view: a range leaves a position only after it was published.

        Raises:
            UnreadableRanges: what is on record is damaged.
        """
        ranges: dict[MirrorPartition, list[OffsetRange]] = defaultdict(list)
        for record in view.offset_runs(spec):
            ranges[record.partition].append(OffsetRange(record.source, record.destination))
        detailed: dict[MirrorPartition, list[_Stretch]] = defaultdict(list)
        for piece in view.offset_ranges(spec):
            runs = piece.runs
            ranges[piece.partition] += runs
            detailed[piece.partition].append((runs[0], runs[-1]))
        if not spec.is_mapped:
            return cls(MappingProxyType({at: OffsetMap.of(found) for at, found in ranges.items()}))
        spans: dict[MirrorPartition, list[AnchoredSpan]] = defaultdict(list)
        for anchors in view.offset_anchors(spec):
            spans[anchors.partition] += anchors.spans
        for at, some in spans.items():
            ranges[at] += (end for span in some for end in (span.start, span.until))
        maps = {
            at: _mapped(_Published(ranges[at], detailed[at], spans[at]), positions.get(at), unread.get(at, ""))
            for at in {*ranges, *positions, *unread}
        }
        return cls(MappingProxyType(maps), _NOTHING_COPIED)

    def walked(self, found: Mapping[MirrorPartition, Mapping[AnchoredSpan, tuple[OffsetRange, ...] | str]]) -> Self:
        """This policy with what walks have found, as `OffsetMap.walked` has it."""
        maps = {at: self.map_of(at).walked(each) for at, each in found.items()}
        return replace(self, _maps=MappingProxyType({**self._maps, **maps}))

    @property
    def with_ranges(self) -> AbstractSet[MirrorPartition]:
        """The partitions whose offsets differed from those of the source, at least for a while."""
        return self._maps.keys()

    def map_of(self, at: MirrorPartition) -> OffsetMap:
        """How the offsets of one partition relate."""
        return self._maps.get(at, self._otherwise)

    def copied(self, at: MirrorPartition, end: DestinationOffset) -> SourceOffset:
        """Up to which source offset a copy that ends at `end` has the records."""
        return self.map_of(at).origin(end)

    def in_copy(self, at: MirrorPartition, offset: SourceOffset) -> DestinationOffset:
        """Where the first record at or after a source offset is in the copy, or will be."""
        return self.map_of(at).locate(offset)


class _Published(NamedTuple):
    """What is on record of a partition: ranges, where they are all that there are, and what lies between anchors."""

    ranges: Sequence[OffsetRange]
    detailed: Sequence[_Stretch]
    spans: Sequence[AnchoredSpan]


def _mapped(published: _Published, copied: CopiedPosition | None, unread: str) -> OffsetMap:
    ranges, detailed, spans = published
    known = list(detailed)
    if copied is not None and copied.runs:
        known.append((copied.runs[0], OffsetRange(copied.position, copied.end)))
        ranges = (*ranges, *copied.runs)
    until = copied.position if copied is not None else max(ranges).source if ranges else SourceOffset(0)
    unwalked = (*_not_within(spans, known), *_lost([*known, *((each.start, each.until) for each in spans)]))
    return OffsetMap.of(ranges, until, "" if copied is not None else unread, unwalked)


def _lost(known: Iterable[_Stretch]) -> Iterator[AnchoredSpan]:
    """What lies between the stretches of which anything is on record, and before the first one.

    What is published last rides on with the position (`without_records`), so both have the source offset at which the
    latter begin. State topics that were restored from an older export lack what was published since. The first piece of
    a copy begins at source offset 0, unless the log of the copy has nothing any more of those that were before it.
    """
    reached = BEFORE_ALL
    for first, last in sorted(known):
        if max(reached.source, 0) < first.source:
            yield AnchoredSpan(reached, first, ())
        reached = max(reached, last)


def _not_within(spans: Iterable[AnchoredSpan], detailed: Iterable[_Stretch]) -> Iterator[AnchoredSpan]:
    """Of `spans` those that are neither known in detail nor within a longer one, and not empty.

    Pieces of ranges meet: the next one begins before the one before ends.
    """
    whole: list[tuple[SourceOffset, SourceOffset]] = []
    for first, last in sorted(detailed):
        if whole and first.source <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(last.source, whole[-1][1]))
        else:
            whole.append((first.source, last.source))
    reached = -1
    for span in sorted(spans, key=lambda each: (each.start.source, -each.until.source)):
        i = bisect_right(whole, span.start.source, key=lambda each: each[0]) - 1
        if span.until.source <= reached or (i >= 0 and span.until.source <= whole[i][1]):
            continue
        if span.start.source < span.until.source:
            reached = span.until.source
            yield span
