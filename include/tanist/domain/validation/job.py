"""What a validation is told: one value, handed to the Spark job as one private file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tanist.domain.endpoint import Endpoint
from tanist.domain.names import MirrorName, ProducerId, TopicPartition
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.states import MirrorState

DOUBTFUL = frozenset({MirrorState.UNKNOWN, MirrorState.PREPARING, MirrorState.FAILED})
"""States in which nobody promises that the copy is one."""


class Level(StrEnum):
    """How deep to look. `ranges`: at offsets; `batches`: at every raw batch; `records`: at every record."""

    RANGES, BATCHES, RECORDS = "ranges", "batches", "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """One partition to compare. `promoted`: others may write to the copy by now, it is compared as far as it is ours.

    `runs`: of the offset map; none: identical offsets. `note`: what its worker said last.
    `unknown_growth`: why it is not known whether the source's topic has partitions that are not asked about.
    """

    partition: TopicPartition
    state: MirrorState = MirrorState.MIRRORING
    note: str = ""
    promoted: bool = False
    runs: tuple[OffsetRange, ...] = ()
    unknown_growth: str = ""

    @property
    def map(self) -> OffsetMap:
        return OffsetMap.of(self.runs)

    @property
    def uncertainty(self) -> str:
        """Why even an equal copy would not be vouched for; empty: nothing speaks against it."""
        doubts = (f"{self.state}: {self.note}" if self.state in DOUBTFUL else "", self.unknown_growth)
        return "; ".join(filter(None, doubts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationJob:
    """`run` names this validation. `data_id`: the producer id that every batch of the mirror carries.

    `settle_seconds`: how long a copy that is behind may take to reach the end that its source had at first.
    """

    run: str
    mirror: MirrorName
    level: Level
    source: Endpoint
    destination: Endpoint
    data_id: ProducerId
    partitions: tuple[PartitionRequest, ...]
    settle_seconds: float = 15.0
