"""Reading both logs and resuming from there."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.answers import attempt
from tanist.domain.appending import CopiedRecord, Pipeline
from tanist.domain.compacted_recovery import recover_compacted_position
from tanist.domain.compaction import CaughtUp, Holes
from tanist.domain.errors import CompactionHole, Diverged, SourceTruncated, Stopped, TanistError, TimedOut, Unreachable
from tanist.domain.log_ends import above_copy_start
from tanist.domain.recovery import SourceBehind, recover_position
from tanist.fetcher.engines.batches.evidence import WireLogReader, copy_ends, ids_and_ends, source_starts
from tanist.fetcher.engines.batches.first_reads import CopyFound, first_reads
from tanist.fetcher.engines.batches.lost_tombstones import COMPARE_SECONDS, NotCompared, deleted_keys
from tanist.fetcher.engines.batches.partition import StartFill
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.planning import recreated
from tanist.fetcher.runs import LossRecords
from tanist.kafka.protocol.refilling import DeletedKeys
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from tanist.domain.errors import SourceTopicRecreated
    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.names import MirrorPartition, SourceOffset
    from tanist.domain.recovery import ResumePoint, SourceStart
    from tanist.fetcher.engines.batches.first_reads import FirstReads
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.fetcher.runs import OffsetRuns, OnRecord
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.requests import EpochEnd
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

log = logging.getLogger(__name__)

RECOVERY_SECONDS: Final = 5.0
"""Timeout for one partition: a frozen broker delays the other partitions of the fetcher thread."""


AT_ONCE: Final = 100
"""Partitions whose records are held while the source is asked about all of them: 128 KiB each."""


class _Read(NamedTuple):
    """What both logs of a partition say. `epoch_before`: as `WireLogReader` has it."""

    found: ResumePoint
    ends: CopyEnds
    source_start: SourceOffset
    epoch_before: int


class _Looks(NamedTuple):
    """What was read of a partition in bulk, in this order. `start`: None: not known."""

    first: tuple[UUID | None, CopyEnds] | TanistError
    start: SourceStart | None
    reads: FirstReads
    again: CopyEnds | TanistError


class Recovery:
    """Owned by the fetcher thread."""

    def __init__(self, routers: tuple[Router, Router], runs: OffsetRuns, tools: FetcherThreadTools) -> None:
        self._routers = routers
        self._runs = runs
        self._clock = tools.clock
        self._losses = LossRecords(tools)
        self._state = tools.state

    def recover(self, partitions: Sequence[BatchPartition]) -> list[Phase | TanistError]:
        """COPY, FILL_START or the error, for each. A cluster that is down is queried once, not once per partition."""
        found: list[Phase | TanistError] = []
        if not partitions:
            return found
        try:
            by = self._clock.deadline(RECOVERY_SECONDS)
            seen = ids_and_ends(self._routers[1], [each.at for each in partitions], by)
            recorded = self._runs.on_record(self._state, by)  # both after the ends, as `LogReader` wants it
            for first in range(0, len(partitions), AT_ONCE):
                self._recover(partitions[first : first + AT_ONCE], seen, recorded, found)
        except Stopped:
            raise
        except TanistError as why:
            found += [why] * (len(partitions) - len(found))
        return found

    def _recover(
        self,
        partitions: Sequence[BatchPartition],
        seen: Mapping[MirrorPartition, tuple[UUID | None, CopyEnds] | TanistError],
        recorded: OnRecord,
        found: list[Phase | TanistError],
    ) -> None:
        """Add to `found`.

        Raises only errors that concern all partitions: a cluster that does not answer. What is found stays then.
        """
        read = self._read_logs(partitions, seen, recorded)
        continuing = [of for of, logs in zip(partitions, read, strict=True) if isinstance(logs, _Read)]
        epochs = self._epoch_ends(continuing, recorded)
        for each, logs in zip(partitions, read, strict=True):
            by = self._clock.deadline(RECOVERY_SECONDS)
            found.append(
                self._begin(each, logs, recorded, epochs.get(each.at), by) if isinstance(logs, _Read) else logs
            )

    def _read_logs(
        self,
        partitions: Sequence[BatchPartition],
        seen: Mapping[MirrorPartition, tuple[UUID | None, CopyEnds] | TanistError],
        recorded: OnRecord,
    ) -> list[_Read | TanistError]:
        """What both logs say of each. What is asked about each partition is asked about all of them together.

        Raises as `_recover`.
        """
        places = [each.at for each in partitions]
        starts = source_starts(self._routers[0], places, self._clock.deadline(RECOVERY_SECONDS))
        reads = self._first_reads(dict(_found(partitions, seen, starts, recorded)))
        by = self._clock.deadline(RECOVERY_SECONDS)
        again = copy_ends(self._routers[1], places, by)  # whether a copy that was empty is so after all that was read
        read: list[_Read | TanistError] = []
        for each in partitions:
            by = self._clock.deadline(RECOVERY_SECONDS)
            looks = _Looks(seen[each.at], starts.get(each.at), reads.get(each.at, {}), again[each.at])
            read.append(self._read(each, looks, recorded, by))
        return read

    def _first_reads(self, copies: Mapping[MirrorPartition, CopyFound]) -> Mapping[MirrorPartition, FirstReads]:
        """What is expected only changes nothing where it does not come: each partition is read alone then."""
        try:
            return first_reads(self._routers, copies, self._clock.deadline(RECOVERY_SECONDS))
        except Stopped:
            raise
        except TanistError:
            return {}

    def _read(
        self,
        of: BatchPartition,
        looks: _Looks,
        recorded: OnRecord,
        by: Deadline,
    ) -> _Read | TanistError:
        """Raises as `_recover`."""
        try:
            of.topic_id, ends = value(looks.first)
            try:
                return self._position(of, ends, recorded, by, looks)
            except CompactionHole:
                if not of.found_hole():
                    raise
                return self._position(of, ends, recorded, by)
            except (Diverged, SourceBehind) as why:
                return self._another_topic(of, by) or self._evidence(of, ends, recorded, by).explain(why, ends)
            except SourceTruncated as why:
                return self._another_topic(of, by) or why
        except (Stopped, TimedOut, Unreachable):
            raise
        except TanistError as why:
            return why

    def _position(
        self, of: BatchPartition, ends: CopyEnds, recorded: OnRecord, by: Deadline, looks: _Looks | None = None
    ) -> _Read:
        evidence = self._evidence(of, ends, recorded, by)
        if looks is not None:
            evidence.start, evidence.first_reads = looks.start, looks.reads
            evidence.seen_again = None if isinstance(looks.again, TanistError) else looks.again
        suspect_from = of.halted.suspect_from if of.halted else None
        recover = recover_position if of.holes is Holes.REFUSE else recover_compacted_position
        found = recover(evidence, of.assigned.spec.writer, suspect_from)
        source_start, epoch = evidence.source_start().log_start, evidence.epoch_before(found.position)
        return _Read(found, ends, source_start, epoch)

    def _begin(
        self,
        of: BatchPartition,
        read: _Read,
        recorded: OnRecord,
        epoch_end: EpochEnd | TanistError | None,
        by: Deadline,
    ) -> Phase | TanistError:
        """Raises as `_recover`."""
        try:
            try:
                return self._resume(of, read, recorded, None if epoch_end is None else value(epoch_end), by)
            except SourceTruncated as why:
                return self._another_topic(of, by) or why
        except (Stopped, TimedOut, Unreachable):
            raise
        except TanistError as why:
            return why

    def _resume(
        self, of: BatchPartition, read: _Read, recorded: OnRecord, epoch_end: EpochEnd | None, by: Deadline
    ) -> Phase:
        found, ends = read.found, read.ends
        if of.copied_record is not None and epoch_end is not None:
            truncated = of.copied_record.lost(found.position, epoch_end.end_offset)
            if truncated is not None:
                raise truncated
        if found.lost is not None:
            lost = self._losses.record(of.assigned, of.topic_id, found.lost, by)
            of.note = f"the source deleted offsets {lost} before they were copied"
        offsets = recorded.offset_map(of.at)
        if found.runs:
            offsets = self._runs.write(of.assigned, found.runs, "recovery", by)
        of.log_start = ends.start
        of.enter_at = read.source_start
        if found.start_fill is not None:
            of.start_fill = StartFill(found.start_fill.to, found.end)
            return Phase.FILL_START
        if ends.start == ends.end:
            of.tombstones.caught_up = CaughtUp(self._clock.now())  # a copy without records has no key too many
        self._settle_tombstones(of, ends, found.position, by)
        of.pipeline = Pipeline.resume(found, offsets)
        of.last_epoch, of.news_at = read.epoch_before, self._clock.monotonic()
        return Phase.COPY

    def _epoch_ends(
        self, partitions: Sequence[BatchPartition], recorded: OnRecord
    ) -> Mapping[MirrorPartition, EpochEnd | TanistError]:
        """Where the leader epoch of the last copied record ends at the source, of partitions that have one.

        Records that cleaners have taken out of one log cannot be compared with the other: leader epochs can.
        """
        for each in partitions:
            if each.copied_record is None and (stored := recorded.progress(each.assigned)).record is not None:
                each.copied_record = CopiedRecord(*stored.record)
        epochs = {each.at: each.copied_record.epoch for each in partitions if each.copied_record is not None}
        by = self._clock.deadline(RECOVERY_SECONDS)
        return requests.offset_for_leader_epoch(self._routers[0], epochs, by) if epochs else {}

    def _settle_tombstones(self, of: BatchPartition, ends: CopyEnds, position: SourceOffset, by: Deadline) -> None:
        """Find the keys that were deleted at the source unseen, or store that there may be such keys."""
        lost, hole, now = of.tombstones, of.tombstones.hole, self._clock.now()
        lost.deleted, lost.settled_at = DeletedKeys(), None
        if hole is None:
            return
        try:
            lost.deleted = self._deleted_keys(of, ends, position)
        except (NotCompared, TimedOut):
            self._runs.tombstones_missed(of.assigned, hole, lost.caught_up, now, by)
            log.warning("tombstones may be missing", extra={"partition": str(of.at), "from": hole})
        else:
            log.info("compared keys", extra={"partition": str(of.at), "from": hole, "deleted": len(lost.deleted.keys)})
        lost.hole, lost.settled_at = None, now

    def _deleted_keys(self, of: BatchPartition, ends: CopyEnds, position: SourceOffset) -> DeletedKeys:
        """Raises NotCompared also where holes are filled with gap markers, which cannot delete a key."""
        if of.holes is not Holes.COPIES:
            raise NotCompared
        by = self._clock.deadline(COMPARE_SECONDS)
        return deleted_keys(of.at, self._routers, ends, position, by)

    def _evidence(self, of: BatchPartition, ends: CopyEnds, recorded: OnRecord, by: Deadline) -> WireLogReader:
        offsets, holes = recorded.offset_map(of.at), of.holes is not Holes.REFUSE
        reader = WireLogReader(of.assigned, ends, self._routers, offsets, by, holes=holes)
        reader.progress = partial(_copied_until, of, recorded)
        return reader

    def _another_topic(self, of: BatchPartition, by: Deadline) -> SourceTopicRecreated | None:
        """Whether the source's log differs because it is that of another topic of the same name."""
        found = value(requests.topic_ids(self._routers[0], [of.at], by)[of.at])
        return recreated(of.at.topic, of.assigned.source_topic_id, found)


def _found(
    partitions: Sequence[BatchPartition],
    seen: Mapping[MirrorPartition, tuple[UUID | None, CopyEnds] | TanistError],
    starts: Mapping[MirrorPartition, SourceStart],
    recorded: OnRecord,
) -> Iterator[tuple[MirrorPartition, CopyFound]]:
    """The copies whose logs can be read, as far as is known: both of their leaders have answered a moment ago.

    Without those of which more than the usual end is read.
    """
    for each in partitions:
        first, start = seen[each.at], starts.get(each.at)
        if start is None or isinstance(first, TanistError) or (each.halted and each.halted.suspect_from is not None):
            continue
        ends = attempt(partial(above_copy_start, first[1], each.assigned.copy_start))
        if not isinstance(ends, TanistError):
            yield (
                each.at,
                CopyFound(
                    ends,
                    recorded.offset_map(each.at).origin,
                    each.assigned.spec.writer,
                    start.log_start,
                    holes=each.holes is not Holes.REFUSE,
                ),
            )


def _copied_until(of: BatchPartition, recorded: OnRecord) -> SourceOffset | None:
    """As `CompactedLogReader` has it: what this worker knows, or the one before has stored."""
    known = (of.pipeline.landed_until, of.assigned.copied_until, recorded.progress(of.assigned).copied_until)
    return max((each for each in known if each is not None), default=None)
