"""Records that the source deleted before they were copied: which offsets, and what the mirror does about them.

Retention of the source, or `kafka-delete-records.sh`, moves its log start beyond the position of the mirror. These
records are then at neither cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from tanist.domain.errors import PartitionBroken
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.state_record import MirrorRecord, Placement, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_RANGES: Final = 100
"""Lost ranges that the record of a partition lists; of earlier ones it only counts the offsets."""


class OnLoss(StrEnum):
    """What a mirror does when the source has deleted records before they were copied."""

    FAIL, CONTINUE = "fail", "continue"


class UncopiedRecordsDeleted(PartitionBroken):
    """Leaves FAILED as soon as the mirror is allowed to continue."""

    name = "UNCOPIED_RECORDS_DELETED"
    operator_action = (
        "these records are lost; `tanist mirrors alter NAME --on-loss continue` copies what follows, at its offsets"
    )


@dataclass(frozen=True, slots=True, order=True)
class LostRange:
    """The source offsets from `start` up to, not including, `until`. `at`: when that was found, ms since 1970."""

    start: SourceOffset
    until: SourceOffset
    at: EpochMs

    @property
    def offsets(self) -> int:
        """How many offsets; at most as many records, because some may have been transaction markers."""
        return self.until - self.start

    def __str__(self) -> str:
        return f"{self.start} to {self.until - 1}"


@stored("lost", "mirror", "partition", policy=RecordPolicy(stays=True), placement=Placement.HASHED)
@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets(MirrorRecord):
    """The records of a partition that the source deleted before they were copied; written before copying continues.

    `earlier`: offsets of ranges that are no longer listed. `topic_id`: of the mirror topic that lacks them.
    """

    mirror: MirrorName
    partition: MirrorPartition
    ranges: tuple[LostRange, ...]
    earlier: int = 0
    topic_id: str = ""
    at: EpochMs
    mirror_id: str = ""

    @property
    def offsets(self) -> int:
        """All lost offsets."""
        return self.earlier + sum(each.offsets for each in self.ranges)


def with_range(ranges: Iterable[LostRange], new: LostRange) -> tuple[LostRange, ...]:
    """`ranges` and `new`, sorted; ranges that overlap or touch become one, with the time of the first."""
    found: list[LostRange] = []
    for each in sorted([*ranges, new], key=lambda lost: (lost.start, lost.at)):
        if found and each.start <= found[-1].until:
            found[-1] = LostRange(found[-1].start, SourceOffset(max(found[-1].until, each.until)), found[-1].at)
        else:
            found.append(each)
    return tuple(found)


def describe(ranges: Sequence[LostRange], earlier: int) -> str:
    """`ranges` for people; empty: nothing is lost. `earlier`: offsets of ranges that are no longer listed."""
    listed = [str(each) for each in ranges]
    counted = earlier + sum(each.offsets for each in ranges)
    if not counted:
        return ""
    more = [f"{earlier} earlier ones"] if earlier else []
    return f"{counted} offsets were deleted at the source before they were copied: {', '.join([*listed, *more])}"


@stored("tombstones", "mirror", "partition", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonesMissed(MirrorRecord):
    """Tombstones may be missing in a mirror partition: its copy may hold keys that were deleted at the source.

    From source offset `start` on there were holes which were read at `read_at`, `kept_ms` or longer after the copy was
    last caught up (`caught_up_at`; None: unknown). In `__mirror_offsets`; written before anything behind it is copied,
    and deleted when the topic is added anew.
    """

    name: ClassVar[str] = "TOMBSTONES_MAY_BE_MISSING"
    mirror: MirrorName
    partition: MirrorPartition
    start: SourceOffset
    caught_up_at: EpochMs | None = None
    read_at: EpochMs
    kept_ms: int
    mirror_id: str = ""

    @property
    def reason(self) -> str:
        """For people, with the next step."""
        away = "an unknown time" if self.caught_up_at is None else f"{(self.read_at - self.caught_up_at) // 1000} s"
        return (
            f"holes of the source from offset {self.start} on were read {away} after the copy was last caught up, and "
            f"the source keeps tombstones for {self.kept_ms // 1000} s: keys that were deleted there may be left in "
            "the copy; compare both with `tanist validate --level records`, or copy the topic again from its start "
            "(docs/mirroring.md)"
        )
