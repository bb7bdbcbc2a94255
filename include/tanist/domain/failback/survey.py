"""What an old source has that the new primary lacks: decided from where both logs end, for each partition.

For a partition, `L` is where the old source's records end in the mirror partition and `H` where the new primary's own
begin (both from the lineage), `E` is where the old source's log really ended, and `C` where the common prefix of both
logs ends. The divergent tail is what the old source has from C up to E. Nobody else has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.tails import PartitionTail, TailStage, TailVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.names import EpochMs, MirrorPartition


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
    `on_record`: what an earlier survey has stored of its tail; `done`: that was rescued, and what was decided about it
    is done. `grown`: committed records that the old source has got behind the end on record; None: unknown.
    `decided_before`: records of its tail that plans have decided about that were carried out, while it is not `done`.
    `source_start`, `primary_start`: where the logs of the old source and of the new primary begin by now. `identical`:
    False if records have other offsets in the mirror partition where the old source's end, if the partition was never
    mirrored, or if no record is left to compare from `old_end` on: nothing can be compared then.
    `shifted_below`: up to which offset they had others, 0: nowhere.
    """

    partition: MirrorPartition
    promotion_epoch: int
    old_end: int
    reserve_end: int
    end: int | None = None
    common_end: int | None = None
    tail: TailCounts | None = None
    reasons: tuple[str, ...] = ()
    on_record: PartitionTail | None = None
    done: bool = False
    grown: int | None = None
    decided_before: int = 0
    source_start: int | None = None
    primary_start: int | None = None
    identical: bool = True
    shifted_below: int = 0

    @property
    def decided(self) -> bool:
        """Whether the tail is rescued, and what was decided about it is done. Markers may follow, records may not."""
        known = self.on_record
        return self.done and known is not None and self.end is not None and (self.end <= known.end or self.grown == 0)

    @property
    def undecided(self) -> bool:
        """Whether its tail has records, at the old source or in quarantine, about which nobody has decided."""
        known = self.on_record
        rescued = known is not None and known.records > 0 and not self.done
        return rescued or (self.verdict is TailVerdict.TAIL and not self.decided)

    @property
    def tail_records(self) -> int:
        """The records of its tail, of which the old source may have deleted some since they were counted."""
        return max(self.tail.records if self.tail else 0, self.on_record.records if self.on_record else 0)

    @property
    def decided_records(self) -> int:
        """How many of its tail's records somebody has decided about, and that is done."""
        return self.on_record.records if self.done and self.on_record else self.decided_before

    @property
    def new_records(self) -> int:
        """The records of its tail about which nobody has decided: all, or those that have come since."""
        if self.done and self.grown is not None:
            return self.grown
        return max(0, self.tail_records - self.decided_records)

    @property
    def expired(self) -> int:
        """Offsets that the new primary lacks and the old source had deleted before they were rescued."""
        if self.end is None or self.common_end is None or self.source_start is None:
            return 0
        known, rescued_to, before = self.on_record, self.common_end, 0
        if known is not None and known.is_rescued:
            rescued_to, before = known.end, known.expired
        return before + max(0, min(self.source_start, self.end) - rescued_to)

    @property
    def uncompared(self) -> bool:
        """Whether retention has left nothing of the common prefix that could be compared."""
        starts = [start for start in (self.source_start, self.primary_start) if start is not None]
        return bool(starts) and self.end is not None and 0 < min(self.old_end, self.end) <= max(starts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What retention has made unknown."""
        found = []
        if self.expired:
            found.append(
                f"the old source had deleted {self.expired} offset(s) from {self.common_end} on before their rescue"
            )
        if self.uncompared:
            found.append(
                f"no copied record is left to compare: the old source begins at {self.source_start}, the new primary "
                f"at {self.primary_start}; where the common prefix ends is known from the lineage only"
            )
        if (later := (self.source_start or 0) - (self.primary_start or 0)) > 0 and self.primary_start is not None:
            found.append(
                f"the old source's log begins {later} offset(s) later than the new primary's: after a reversal no "
                "failover to it is possible (COPY_TRUNCATED) until retention of the new primary has passed them"
            )
        if self.identical and self.shifted_below:
            found.append(f"below offset {self.shifted_below} records have other offsets in the mirror partition")
        return tuple(found)

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
        if not self.tail.records:
            return TailVerdict.EXPIRED if self.expired else TailVerdict.NONE
        return TailVerdict.TAIL

    @property
    def final(self) -> bool:
        """Whether the old source cannot get more records, so that the verdict stays."""
        return not self.reasons and self.verdict is not TailVerdict.UNKNOWN

    @property
    def can_be_recorded(self) -> bool:
        """Whether it is final, or can never be: its records cannot be compared."""
        return self.final or (not self.identical and self.end is not None)


def new_words(found: Sequence[PartitionSurvey]) -> str:
    """How many records nobody has decided about, and how many before them are decided."""
    new, decided = sum(each.new_records for each in found), sum(each.decided_records for each in found)
    return f"{new} new record(s) (beside {decided} that are decided)" if decided else f"{new} record(s)"


def not_compared(found: Iterable[PartitionSurvey]) -> frozenset[MirrorPartition]:
    """The partitions whose records cannot be compared."""
    return frozenset(each.partition for each in found if not each.identical)


def stage_of(tails: Sequence[PartitionTail], before: TailStage) -> TailStage:
    """How far the tails of a topic are. `before`: how far they were, or SURVEYED."""
    if not any(each.records for each in tails):
        return TailStage.DONE
    return before if all(each.is_rescued for each in tails) else TailStage.SURVEYED


def tail_on_record(found: PartitionSurvey) -> PartitionTail:
    """What is to be on record of a partition. One that has got no more records, but markers, stays as it is.

    What is on record of it is not counted again, as the old source may have deleted it: the rescue finds what is lost.
    """
    before, end = found.on_record, found.end or 0
    if not found.identical:
        start = found.old_end
        return PartitionTail(
            partition=found.partition.partition, verdict=found.verdict, common_end=start, end=max(start, end), records=0
        )
    if before is None:
        records = found.tail.records if found.tail else 0
        return PartitionTail(
            partition=found.partition.partition,
            verdict=found.verdict if records or found.verdict is not TailVerdict.TAIL else TailVerdict.NONE,
            common_end=found.common_end or 0,
            end=end,
            records=records,
            expired=found.expired,
        )
    if end <= before.end:
        return before
    if not found.grown:
        overlaps = found.verdict is TailVerdict.OVERLAP
        return replace(before, verdict=found.verdict, end=end) if overlaps else before
    return replace(
        before,
        verdict=found.verdict,
        end=end,
        records=before.records + found.grown,
        copied_to=-1,
        digest="",
        expired=before.expired + max(0, min(found.source_start or 0, end) - before.end),
    )
