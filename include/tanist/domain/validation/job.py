"""The input of a validation: one value, passed to the Spark job as one private file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tanist.domain.endpoint import Endpoint
from tanist.domain.exclusive import ExclusiveRange
from tanist.domain.names import MirrorName, ProducerId, SourceOffset, TopicPartition
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.states import MirrorState

DOUBTFUL = frozenset({MirrorState.UNKNOWN, MirrorState.PREPARING, MirrorState.FAILED})
"""States in which a mirror partition may differ from its source."""


class Level(StrEnum):
    """What to compare. `ranges`: offsets; `batches`: every raw batch; `records`: every committed record."""

    RANGES, BATCHES, RECORDS = "ranges", "batches", "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """One partition to compare, by its name at the destination; `at_source`: at the source, None: the same.

    `promoted`: other producers may write to it now; only the mirrored part is compared.
    `runs`: of the offset map; none: identical offsets. `note`: its worker's last message.
    `old_end`, `reserve_end`: of the reserve that a failover has made of offsets which only the old source can have
    (`domain.lineage`); both None: there is none.
    `unknown_growth`: why it is unknown whether the source's topic has more partitions. `compacted`: cleaners remove
    records from both logs, each its own, and the offsets of removed ones hold copies of the next record.
    `copy_start`: where our copying began in the mirror partition; what lies below is history, which had other writers.
    `source_start`: where it begins at the source.
    `exclusive`: ranges that only one of the clusters can have; they are not compared.
    `other_offsets`: why differences may be those of offsets alone, and what tells; empty: they are not.
    `until`: of a copy with offsets of its own the source offset up to which `runs` say where its records are: only that
    is compared. `source_end`: where the source ended before they were read; what came later did not have to be copied.
    `unread`: why it is not known what was copied behind `until`. None, and empty: offsets are identical but for `runs`.
    `may_repeat`: the mirror delivers at least once, so a record may lie in the copy again, before where `runs` say.
    """

    partition: TopicPartition
    at_source: TopicPartition | None = None
    state: MirrorState = MirrorState.MIRRORING
    note: str = ""
    promoted: bool = False
    runs: tuple[OffsetRange, ...] = ()
    unknown_growth: str = ""
    compacted: bool = False
    old_end: int | None = None
    reserve_end: int | None = None
    copy_start: int = 0
    source_start: int = 0
    exclusive: tuple[ExclusiveRange, ...] = ()
    other_offsets: str = ""
    until: int | None = None
    source_end: int | None = None
    unread: str = ""
    may_repeat: bool = False

    @property
    def source(self) -> TopicPartition:
        """Its name at the source."""
        return self.at_source or self.partition

    @property
    def map(self) -> OffsetMap:
        return OffsetMap.of(self.runs, None if self.until is None else SourceOffset(self.until))

    @property
    def has_other_offsets(self) -> bool:
        """Whether the copy has other offsets than the source, at least for a while, or always."""
        return bool(self.runs) or self.map.is_mapped

    @property
    def skipped(self) -> tuple[tuple[int, int], ...]:
        """Offsets of both logs at which nothing is compared: reserves. Where offsets are not identical, none."""
        if self.has_other_offsets:
            return ()
        return tuple((each.start, each.until) for each in self.exclusive if each.until is not None)

    @property
    def uncertainty(self) -> str:
        """Why the verdict would be unknown even if no difference is found; empty: it would not."""
        doubts = (f"{self.state}: {self.note}" if self.state in DOUBTFUL else "", self.unknown_growth, self.unread)
        return "; ".join(filter(None, doubts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationJob:
    """`run` names this validation. `data_id`: the producer id that every batch of the mirror has, -1: there is none.

    `settle_seconds`: how long a mirror partition that lags may take to reach the end that its source had at first.
    """

    run: str
    mirror: MirrorName
    level: Level
    source: Endpoint
    destination: Endpoint
    data_id: ProducerId
    partitions: tuple[PartitionRequest, ...]
    settle_seconds: float = 15.0
