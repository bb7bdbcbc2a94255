"""Ranges of a mapped copy that were lost, found again in both logs: the n-th record of one is the n-th of the other.

From a point that both logs are known to have in common their committed records follow each other in the same order, as
long as no cleaner has removed any. So how many records lie behind that point in the copy says how far it was copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.mapped_runs import extended, moved
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST: Final = 200
"""Ranges that may still change are among the last ones."""


@dataclass(slots=True)
class RestoredRanges:
    """What was found so far. `begin`: the ranges of the point from where on both logs are read, at least one.

    `position`: the next record of the source is at or behind it. `read`: up to where both logs were read, without what
    is not in both yet. `records`: how many are in both logs; `size`: bytes of their batches in the copy.
    """

    begin: tuple[OffsetRange, ...]
    position: SourceOffset = field(init=False)
    read: OffsetRange = field(init=False)
    records: int = 0
    size: int = 0
    _before: list[OffsetRange] = field(default_factory=list)
    _last: tuple[OffsetRange, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.begin
        self.position, self.read = self.begin[-1].source, self.begin[-1]

    def paired(self, batch: OffsetRange, count: int) -> None:
        """So many records follow each other without a gap in both logs, the first of them at `batch`."""
        self._last = extended(self._last, batch, count)
        if len(self._last) > _MOST:
            self._before += self._last[: -_MOST // 2]
            self._last = self._last[-_MOST // 2 :]
        self.position = SourceOffset(batch.source + count)
        self.records += count

    def runs(self, end: DestinationOffset) -> Sequence[OffsetRange]:
        """All ranges of a copy that ends at `end`, from `begin` on."""
        return (*self._before, *moved(self._last, OffsetRange(self.position, end)))
