"""What an old source has that the new primary lacks: decided from where both logs end, for each partition.

For a partition, `L` is where the old source's records end in the mirror partition and `H` where the new primary's own
begin (both from the lineage), `E` is where the old source's log really ended, and `C` where the common prefix of both
logs ends. The divergent tail is what the old source has from C up to E. Nobody else has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.tails import TailVerdict

if TYPE_CHECKING:
    from tanist.domain.names import EpochMs, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCounts:
    """Committed records of a divergent tail. `bytes`: of keys, values and headers. Times: ms since 1970."""

    records: int = 0
    bytes: int = 0
    keys: int = 0
    first: EpochMs | None = None
    last: EpochMs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSurvey:
    """One partition, in offsets of the source. None: unknown, `reasons` say why.

    `old_end`: L; `reserve_end`: H; `end`: E; `common_end`: C. `reasons`: why `end` is not final, or unknown.
    `decided`: the tail is rescued, and what was decided about it is done.
    """

    partition: TopicPartition
    promotion_epoch: int
    old_end: int
    reserve_end: int
    end: int | None = None
    common_end: int | None = None
    tail: TailCounts | None = None
    reasons: tuple[str, ...] = ()
    decided: bool = False

    @property
    def verdict(self) -> TailVerdict:
        end, common = self.end, self.common_end
        if end is None or common is None:
            return TailVerdict.UNKNOWN
        if common < self.old_end:
            return TailVerdict.DIVERGED if common < end else TailVerdict.SHORTER
        if end > self.reserve_end:
            return TailVerdict.OVERLAP
        if self.tail is None:
            return TailVerdict.UNKNOWN if end > common else TailVerdict.NONE
        return TailVerdict.TAIL if self.tail.records else TailVerdict.NONE

    @property
    def final(self) -> bool:
        """Whether the old source cannot get more records, so that the verdict stays."""
        return not self.reasons and self.verdict is not TailVerdict.UNKNOWN
