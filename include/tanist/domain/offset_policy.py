"""How the offsets of a mirror relate: what of the source a copy has, and where in the copy a source offset is.

Identical offsets: ranges on record say where a partition of it differs. Mapped ones: ranges say where everything is, up
to where the copy goes on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from tanist.domain.mapped_runs import continues
from tanist.domain.names import SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView

_IDENTICAL = OffsetMap()
_NOTHING_COPIED = OffsetMap(until=SourceOffset(0))


_NONE: Mapping[MirrorPartition, CopiedPosition] = MappingProxyType({})
_ALL_READ: Mapping[MirrorPartition, str] = MappingProxyType({})


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
        for piece in view.offset_ranges(spec):
            ranges[piece.partition] += piece.runs
        if not spec.is_mapped:
            return cls(MappingProxyType({at: OffsetMap.of(found) for at, found in ranges.items()}))
        maps = {
            at: _mapped(ranges.get(at, ()), positions.get(at), unread.get(at, ""))
            for at in {*ranges, *positions, *unread}
        }
        return cls(MappingProxyType(maps), _NOTHING_COPIED)

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


def _mapped(published: Sequence[OffsetRange], copied: CopiedPosition | None, unread: str) -> OffsetMap:
    if copied is not None:
        if continues(published, copied.runs):
            return OffsetMap.of((*published, *copied.runs), copied.position)
        unread = (
            f"its ranges before source offset {copied.runs[0].source} were published, and `__mirror_offsets` has them "
            "no more"
        )
    return OffsetMap.of(published, max(published).source if published else SourceOffset(0), unread)
