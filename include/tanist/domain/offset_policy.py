"""How the offsets of a mirror relate: what of the source a copy has, and where in the copy a source offset is.

Identical is the only policy; ranges on record say where a partition of it differs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from tanist.domain.offset_map import OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView

_IDENTICAL = OffsetMap()


@dataclass(frozen=True, slots=True)
class OffsetPolicy:
    """Of one mirror, as it was read from `__mirror_offsets`."""

    _maps: Mapping[MirrorPartition, OffsetMap] = field(default_factory=dict)

    @classmethod
    def of(cls, view: StateView, spec: MirrorSpec) -> Self:
        """From a view of `__mirror_offsets`."""
        ranges: dict[MirrorPartition, list[OffsetRange]] = defaultdict(list)
        for record in view.offset_runs(spec):
            ranges[record.partition].append(OffsetRange(record.source, record.destination))
        return cls(MappingProxyType({partition: OffsetMap.of(found) for partition, found in ranges.items()}))

    @property
    def with_ranges(self) -> AbstractSet[MirrorPartition]:
        """The partitions whose offsets differed from those of the source, at least for a while."""
        return self._maps.keys()

    def map_of(self, at: MirrorPartition) -> OffsetMap:
        """How the offsets of one partition relate."""
        return self._maps.get(at, _IDENTICAL)

    def copied(self, at: MirrorPartition, end: DestinationOffset) -> SourceOffset:
        """Up to which source offset a copy that ends at `end` has the records."""
        return self.map_of(at).origin(end)

    def in_copy(self, at: MirrorPartition, offset: SourceOffset) -> DestinationOffset:
        """Where the first record at or after a source offset is in the copy, or will be."""
        return self.map_of(at).locate(offset)
