"""The result of a reconciliation, by partition and by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tanist.domain.exclusive import ExclusiveRange
    from tanist.domain.reconciliation.job import PositionRequest, TopicPair
    from tanist.domain.translation import Precision


@dataclass(frozen=True, slots=True)
class LogRead:
    """The records of one log that were read from `start` up to, not including, `until`."""

    start: int
    until: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRange:
    """A range that only one cluster can have, with the committed records in it that have no counterpart."""

    range: ExclusiveRange
    records: int

    def item(self) -> dict[str, Any]:
        """As the result file tells it."""
        return {
            "log": "source" if self.range.at_source else "destination",
            "start": self.range.start,
            "until": self.range.until,
            "records": self.records,
            "reason": self.range.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledPartition:
    """One partition of a pair. With `trouble` nothing else is known about it.

    `copied`, `lost`: committed records of the source with and without a copy. Of the copied, `moved` are out of order;
    of the lost, `behind` come after the last that is copied: the copy may only lag. `repeated`: records of the
    destination that the source has, but that are not the last copy of one of them; `runs`: lines of the offset map.
    `only_source`, `only_destination`: records without a counterpart in ranges that only this cluster can have, which
    are counted in no other number (but in `others`); `explained`: these ranges.
    """

    pair: TopicPair
    partition: int
    source: LogRead | None = None
    destination: LogRead | None = None
    copied: int = 0
    moved: int = 0
    lost: int = 0
    behind: int = 0
    repeated: int = 0
    runs: int = 0
    only_source: int = 0
    only_destination: int = 0
    explained: tuple[ExplainedRange, ...] = ()
    trouble: str = ""

    @property
    def others(self) -> int:
        """Destination records that are not the last copy of a committed source record: repeated, foreign, its own."""
        return 0 if self.destination is None else self.destination.records - self.copied

    @property
    def foreign(self) -> int:
        """Destination records that are like no committed record of the source: aborted, deleted there, another's."""
        return self.others - self.repeated - self.only_destination

    def item(self) -> dict[str, Any]:
        """As the result file tells it."""
        return {
            "source_topic": self.pair.source,
            "destination_topic": self.pair.destination,
            "partition": self.partition,
            "source": _read(self.source),
            "destination": _read(self.destination),
            "copied": self.copied,
            "moved": self.moved,
            "lost": self.lost,
            "behind": self.behind,
            "others": self.others,
            "repeated": self.repeated,
            "foreign": self.foreign,
            "only_source": self.only_source,
            "only_destination": self.only_destination,
            "explained": [each.item() for each in self.explained],
            "runs": self.runs,
            "reason": self.trouble,
        }


def _read(log: LogRead | None) -> dict[str, int] | None:
    return None if log is None else {"start": log.start, "until": log.until, "records": log.records}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledPosition:
    """A translated position. `destination` None: unknown, for `reason`. `placement`: where it lies.

    `again`: at most so many records come again that the reader has read.
    """

    request: PositionRequest
    destination: int | None
    precision: Precision
    placement: str
    reason: str | None
    again: int = 0

    def item(self) -> dict[str, Any]:
        """As the result file tells it."""
        asked = self.request
        return {
            "group": asked.group,
            "topic": asked.topic,
            "partition": asked.partition,
            "source_offset": asked.offset,
            "destination_offset": self.destination,
            "precision": self.precision.value,
            "again": None if self.destination is None else self.again,
            "standing": self.placement,
            "reason": self.reason,
        }
