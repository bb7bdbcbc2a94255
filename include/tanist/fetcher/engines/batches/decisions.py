"""What becomes of what the source has answered about one partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import (
    InconsistentTopicId,
    NotLeader,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tanist.domain.compaction import Holes
from tanist.domain.copying import AbortedTransaction, Fill, Refuse, Step, decide
from tanist.domain.errors import CorruptBatch, PartitionBroken
from tanist.domain.names import SourceOffset
from tanist.fetcher.engines.batches.evidence import ends_abort
from tanist.fetcher.engines.batches.lost_tombstones import first_hole
from tanist.kafka.protocol.batch import split, walk
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.merging import sample, walk_merged
from tanist.kafka.protocol.refilling import refilled, split_at_holes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.errors import TanistError
    from tanist.domain.names import EpochMs
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.ports.clock import Clock

REST_SECONDS: Final = 1.0
"""How long offsets without a record wait for one that follows: gap markers carry the current time."""


class AnswerTimes(NamedTuple):
    """One answer of the source: when it was asked for, and the earliest time at which it can have been made."""

    asked_at: EpochMs
    answered_at: EpochMs


class Decisions:
    """Owned by the fetcher thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def unchanged(self, of: BatchPartition, look: AnswerTimes) -> None:
        """The source has answered, and has no news of it (KIP-227)."""
        of.source.still(look.answered_at)
        if not of.pipeline.halted:
            of.compared(look.asked_at)
            self._rest(of, look)

    def take(self, of: BatchPartition, fetched: FetchedPartition, look: AnswerTimes, *, is_whole: bool) -> bool:
        """Take what was fetched; whether the leader may have moved.

        `is_whole`: of the first partition with records the broker sends at least one batch (KIP-74).
        """
        pipeline = of.pipeline
        if fetched.error_code == NONE:  # also of a halted one: these numbers come once in a session
            of.source.served(
                look.answered_at, fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset
            )
        if pipeline.halted or of.assigned.draining:
            return False  # an append failed meanwhile, or it is paused: what was fetched ahead of that is void
        if fetched.error_code != NONE:
            return self._refused(of, error_for(fetched.error_code, f"fetch of {of.there} at {of.fetch_from}"))
        if fetched.diverging is not None:
            of.diverged(SourceOffset(fetched.diverging[1]), self._clock.monotonic())
        elif not self._read_too_late(of, fetched, look):
            self._append(of, fetched, look, is_whole=is_whole)
        return False

    def _append(self, of: BatchPartition, fetched: FetchedPartition, look: AnswerTimes, *, is_whole: bool) -> None:
        pipeline, small = of.pipeline, of.assigned.merges
        of.merging = of.merging.seen(*sample(fetched.records)) if small else replace(of.merging, on=False)
        before, progressed = len(pipeline.steps), pipeline.take(*_steps(of, fetched))
        if len(pipeline.steps) > before:
            of.resting_since = None
        elif progressed or not len(fetched.records):
            self._rest(of, look)
        elif is_whole:
            broken = CorruptBatch(f"the batch at source offset {of.fetch_from} has a corrupt length")
            of.halt(broken, self._clock.monotonic())

    def _read_too_late(self, of: BatchPartition, fetched: FetchedPartition, look: AnswerTimes) -> bool:
        """Whether tombstones may be gone from this answer. Then recovery compares both logs first."""
        lost = of.tombstones
        of.compared(look.asked_at)
        if not of.reads_too_late(self._clock.now()):
            return False
        lost.hole = first_hole(of.pipeline.position, split(fetched.records))
        if lost.hole is not None:
            of.halt(None, self._clock.monotonic())
        return lost.hole is not None

    def _rest(self, of: BatchPartition, look: AnswerTimes) -> None:
        """Offsets without a record that none follows get gap markers after a while: so both logs end alike."""
        pipeline, now = of.pipeline, self._clock.monotonic()
        if of.holes is not Holes.COPIES or not pipeline.quiet:
            return
        if pipeline.end >= pipeline.position:
            pipeline.rested()
            of.compared(look.asked_at)
        elif of.resting_since is None:
            of.resting_since = now
        elif now - of.resting_since >= REST_SECONDS:
            pipeline.take([Fill(SourceOffset(pipeline.end), pipeline.position)])

    def _refused(self, of: BatchPartition, why: TanistError) -> bool:
        now = self._clock.monotonic()
        if isinstance(why, OffsetOutOfRange | UnknownTopicOrPartition | UnknownTopicId | InconsistentTopicId):
            # Both logs tell which end was overrun; and a topic that comes back may be another one, already longer.
            of.halt(why, now)
        else:
            of.source.refused(why, now, self._clock.now())
        return isinstance(why, NotLeader) or why.retriable


def _steps(
    of: BatchPartition, fetched: FetchedPartition
) -> tuple[Iterable[Step[BatchHeader, memoryview]], SourceOffset | None]:
    """As `Pipeline.take` takes them."""
    pipeline, limit = of.pipeline, of.merging.limit
    steps = _decided(of, fetched)
    match of.holes:
        case Holes.COPIES:
            lost = of.tombstones
            made = refilled(steps, pipeline.position, pipeline.planned_end, limit, keyed=of.keyed, deleted=lost.deleted)
            lost.deleted = made.deleted
            return made.steps, made.until
        case Holes.MARKERS:
            return split_at_holes(steps, pipeline.position, limit), None
        case Holes.REFUSE:
            return steps, None


def _decided(of: BatchPartition, fetched: FetchedPartition) -> Iterator[Step[BatchHeader, memoryview]]:
    aborted = [AbortedTransaction(*each) for each in fetched.aborted]
    records, position, merging = fetched.records, of.pipeline.position, of.merging
    batches = walk_merged(records, position, merging.limit) if merging.on else walk(records)
    holes = of.holes is not Holes.REFUSE
    try:
        yield from decide(position, _noted(of, batches), aborted, ends_abort, holes=holes)
    except PartitionBroken as broken:
        yield Refuse(broken)


def _noted(
    of: BatchPartition, batches: Iterable[tuple[BatchHeader, memoryview]]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    for header, batch in batches:
        of.last_epoch = header.leader_epoch
        yield header, batch
