"""What a reconciliation reads of a partition at both ends, and what it has found there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.reconciled.placements import WHY, Standing
from tanist.spark.reconciliation.positions import Ends
from tanist.spark.reconciliation.runs import Runs
from tanist.spark.spans import LogSpan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.reconciliation.job import TopicPair
    from tanist.spark.reconciliation.digests import Bucket


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """One partition of a pair, at both ends; a TanistError in place of ends: why they could not be had.

    `topic_ids`: of the two topics that are meant.
    """

    pair: TopicPair
    partition: int
    source: LogEnds | TanistError
    destination: LogEnds | TanistError
    topic_ids: tuple[UUID | None, UUID | None] = (None, None)

    @property
    def trouble(self) -> str:
        """Why nothing can be read; empty: it can."""
        sides = (("source", self.source), ("destination", self.destination))
        silent = (f"{name}: {ends}" for name, ends in sides if isinstance(ends, TanistError))
        return "; ".join(filter(None, (self.pair.trouble, *silent)))

    @property
    def exclusive(self) -> tuple[ExclusiveRange, ...]:
        """Ranges of this partition that only one of the clusters can have."""
        return tuple(each for each in self.pair.exclusive if each.partition == self.partition)

    @property
    def spans(self) -> tuple[LogSpan, LogSpan]:
        """What is read of both, where there is no trouble."""
        ours, theirs = self.topic_ids
        return _span(self.pair.source, self.partition, self.source, ours), _span(
            self.pair.destination, self.partition, self.destination, theirs
        )

    def every(self, of: int) -> Sequence[LogSpan]:
        """All that is read of the source (0) or of the destination (1)."""
        return [span for span in (self.spans[of], self.undecided[of]) if span is not None]

    @property
    def source_ends(self) -> Ends:
        """Of the source, where there is no trouble."""
        return Ends(self.spans[0].until, self.every(0)[-1].until)

    @property
    def undecided(self) -> tuple[LogSpan | None, LogSpan | None]:
        """What lies of both behind the last stable offset, of open transactions and after them."""
        committed = self.spans
        ends = (self.source, self.destination)
        return _tail(committed[0], ends[0]), _tail(committed[1], ends[1])


def _span(topic: str, partition: int, ends: LogEnds | TanistError, topic_id: UUID | None) -> LogSpan:
    if isinstance(ends, TanistError):
        raise ends
    until = max(ends.start, ends.last_stable)
    return LogSpan(partition=TopicPartition(topic, partition), start=ends.start, until=until, topic_id=topic_id)


def _tail(committed: LogSpan, ends: LogEnds | TanistError) -> LogSpan | None:
    if isinstance(ends, TanistError) or ends.high_watermark <= committed.until:
        return None
    return replace(committed, start=committed.until, until=ends.high_watermark, undecided=True)


@dataclass(frozen=True, slots=True)
class ReconciledLog:
    """What was read of one log and its copy. `runs` and `extras`: also of open transactions. `unread`: why not all.

    `bounds`: as `positions.translate` has them.
    """

    buckets: Sequence[Bucket]
    runs: Runs
    extras: Runs
    unread: str = ""
    bounds: Runs = field(default_factory=Runs.none)

    @property
    def trouble(self) -> str:
        """Why nothing can be told of it; empty: it can."""
        if self.unread:
            return self.unread
        return WHY[Standing.NOTHING_IN_COMMON] if all(self.records) and not len(self.runs.copied) else ""

    @property
    def records(self) -> tuple[int, int]:
        """Of the source, and of the destination, committed."""
        return (
            sum(b.source_records - b.source_open for b in self.buckets),
            sum(b.destination_records - b.destination_open for b in self.buckets),
        )
