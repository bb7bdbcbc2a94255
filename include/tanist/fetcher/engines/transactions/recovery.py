"""Where the copy of a partition goes on: at the position that its last transaction has committed."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.appending import CopiedRecord, Pipeline
from tanist.domain.compaction import CaughtUp
from tanist.domain.delivery import Delivery
from tanist.domain.errors import ForeignWrite, Stopped, TanistError
from tanist.domain.fake_group import NO_PRODUCER, MirrorTruncated, copied_position
from tanist.domain.lost_markers import LostMarker, lacks_marker, lost_marker, open_from
from tanist.domain.mapped_runs import moved
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.recovery import LostSpan, NotCommittedYet, ResumePoint, SourceBehind
from tanist.fetcher.engines.batches.evidence import ids_and_ends
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.engines.transactions.batches_read import batches_read
from tanist.fetcher.engines.transactions.restoration import PositionRestoration
from tanist.fetcher.runs import LossRecords
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.names import MirrorPartition, ProducerId, TopicPartition
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.runs import OffsetRuns
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommittedPosition

log = logging.getLogger(__name__)

RECOVERY_SECONDS: Final = 10.0


class MappedRecovery:
    """Owned by the fetcher thread."""

    def __init__(self, routers: tuple[Router, Router], runs: OffsetRuns, tools: FetcherThreadTools) -> None:
        self._source, self._destination = routers
        self._runs = runs
        self._clock = tools.clock
        self._losses = LossRecords(tools)
        self._restoration = PositionRestoration(routers, runs, tools)
        self._state = tools.state

    def recover(
        self,
        partitions: Sequence[TransactionPartition],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
    ) -> list[Phase | TanistError]:
        """COPY or the error, for each. `positions`: as committed, read after the last epoch had begun."""
        found: list[Phase | TanistError] = []
        try:
            by = self._clock.deadline(RECOVERY_SECONDS)
            seen = ids_and_ends(self._destination, [each.at for each in partitions], by)
            there = [each.there for each in partitions]
            starts = requests.list_offsets(self._source, dict.fromkeys(there, End.EARLIEST), by)
            ends = requests.list_offsets(self._source, dict.fromkeys(there, End.LOG_END), by)
            for each in partitions:
                by = self._clock.deadline(RECOVERY_SECONDS)
                found.append(self._recover(each, seen[each.at], (starts[each.there], ends[each.there]), positions, by))
            self._restoration.publish_begun()
        except Stopped:
            raise
        except TanistError as why:
            found += [why] * (len(partitions) - len(found))
        return found

    def appended_to(
        self,
        partitions: Sequence[TransactionPartition],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
    ) -> list[MirrorPartition]:
        """The partitions whose owners may have appended outside of transactions, by their positions, or without one.

        Without those that are shorter than that: a marker would hide it.
        """
        lasts = {at: int(last.end) for at, last in _lasts(partitions, positions) if last.producer_id != NO_PRODUCER}
        for each in partitions:
            if positions.get(each.at) is None and each.assigned.spec.delivery is Delivery.AT_LEAST_ONCE:
                lasts[each.at] = each.assigned.copy_start + 1  # else nobody has appended anything
        if not lasts:
            return []
        by = self._clock.deadline(RECOVERY_SECONDS)
        ends = requests.list_offsets(self._destination, dict.fromkeys(lasts, End.LOG_END), by)
        return [at for at, last in lasts.items() if isinstance(end := ends[at], TanistError) or end >= last]

    def unended(
        self,
        partitions: Sequence[TransactionPartition],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
    ) -> Mapping[MirrorPartition, DestinationOffset]:
        """The ends of partitions that may lack a marker: something is open there, or it belongs at their end.

        Their replicated ends: of what followers do not have yet nothing is known.
        """
        lasts, by = dict(_lasts(partitions, positions)), self._clock.deadline(RECOVERY_SECONDS)
        at = [each.at for each in partitions]
        stable = requests.list_offsets(self._destination, dict.fromkeys(at, End.LAST_STABLE), by)
        ends = requests.list_offsets(self._destination, dict.fromkeys(at, End.HIGH_WATERMARK), by)
        known = {each: DestinationOffset(end) for each, end in ends.items() if not isinstance(end, TanistError)}
        return {each: end for each, end in known.items() if stable[each] != end or lacks_marker(end, lasts.get(each))}

    def lost_markers(
        self,
        partitions: Sequence[TransactionPartition],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
        ends: Mapping[MirrorPartition, DestinationOffset],
        producer_id: ProducerId,
    ) -> Mapping[MirrorPartition, LostMarker | TanistError]:
        """What those of `ends` lack, as their leaders know `producer_id`; the epoch has just begun."""
        if not ends:
            return {}
        lasts, by = dict(_lasts(partitions, positions)), self._clock.deadline(RECOVERY_SECONDS)
        found: dict[MirrorPartition, LostMarker | TanistError] = {}
        for at, answer in requests.describe_producers(self._destination, ends, by).items():
            if isinstance(answer, TanistError):
                found[at] = answer
                continue
            found[at] = lost_marker(ends[at], lasts.get(at), open_from(answer, producer_id))
        return found

    def _recover(
        self,
        of: TransactionPartition,
        seen: tuple[UUID | None, CopyEnds] | TanistError,
        source: tuple[int | TanistError, int | TanistError],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
        by: Deadline,
    ) -> Phase | TanistError:
        try:
            of.topic_id, copy = value(seen)
            start, end = SourceOffset(value(source[0])), SourceOffset(value(source[1]))
            held = positions.get(of.at)
            if held is None:
                last = self._restoration.position(of, copy, start, by)
            else:
                last = self._committed(of, value(held), copy, by)
            last = self._above(of, last, copy, start, by)
            of.sparse |= 0 < last.position in {start, of.assigned.source_start}  # it may lie inside a batch
            if last.position > end:
                raise SourceBehind(f"{of.there}: the source ends at {end}, before {last.position}, which was copied")
            self._same_history(of, last.position, by)
            self._settle_tombstones(of, by)
        except Stopped:
            raise
        except TanistError as why:
            return why
        of.committed, of.committed_at, of.opened = last, self._clock.monotonic(), None
        of.log_start = copy.start
        of.pipeline = Pipeline.resume(ResumePoint(last.position, copy.end, 0))
        of.last_epoch = -1
        return Phase.COPY

    def _committed(
        self, of: TransactionPartition, held: CommittedPosition, copy: CopyEnds, by: Deadline
    ) -> CopiedPosition:
        """What the last transaction has committed, and the mirror partition agrees.

        Behind it there may be first copies, which nobody has committed, if a producer has appended outside of
        transactions. They are counted: the map names the second copy, from which on each record follows once.

        Raises:
            PositionNotOurs, UnreadableRanges: somebody else has committed it. MirrorTruncated: its log is shorter.
            ForeignWrite: somebody else has written to it. NotCommittedYet: its followers have not caught up.
        """
        last = _proved(of, held)
        if copy.high_watermark != copy.end:
            raise NotCommittedYet(f"{of.at}: the high watermark {copy.high_watermark} is below the end {copy.end}")
        if copy.end < last.end - (last.producer_id == NO_PRODUCER):  # else there is no marker to come
            raise MirrorTruncated(f"{of.at} ends at {copy.end}, but was copied up to {last.end}")
        if copy.end < last.end:
            raise NotCommittedYet(f"{of.at}: the marker of its last transaction is not written yet")
        ours = 0
        for header in self._records(of, max(copy.start, last.end), copy.end, by):
            if last.producer_id == NO_PRODUCER or header.producer_id != last.producer_id:
                raise ForeignWrite(
                    f"{of.at} has records between {last.end} and {copy.end} that this mirror did not write"
                )
            ours += header.record_count
        if ours:
            of.note = (
                f"at least once: {ours} record(s), at offsets {last.end} to {copy.end} of the copy, were appended and "
                "not committed; they are copied again"
            )
            log.warning("records are repeated", extra={"partition": str(of.at), "why": of.note})
        return last

    def _above(
        self, of: TransactionPartition, last: CopiedPosition, copy: CopyEnds, start: SourceOffset, by: Deadline
    ) -> CopiedPosition:
        """`last`, or the source's log start, where the source has deleted what lies between.

        Raises:
            UncopiedRecordsDeleted: the mirror does not continue after a loss. NotOurs, TanistError: as `LossRecords`.
        """
        if last.position >= start:
            return last
        lost = self._losses.record(of.assigned, of.topic_id, LostSpan(last.position, start), by)
        of.note = f"the source deleted offsets {lost} before they were copied"
        goes_on = OffsetRange(start, copy.end)
        before = last.runs or (OffsetRange(last.position, last.end),)
        return replace(last, position=start, end=copy.end, runs=moved(before, goes_on))

    def _records(
        self, of: TransactionPartition, start: int, until: DestinationOffset, by: Deadline
    ) -> Iterator[BatchHeader]:
        """The batches that a reader of committed records finds in the mirror partition from `start` up to `until`."""
        return (header for header, _, is_seen in batches_read(self._destination, of.at, start, until, by) if is_seen)

    def _same_history(self, of: TransactionPartition, position: SourceOffset, by: Deadline) -> None:
        """Raises SourceTruncated: the source has lost a record that was copied (KIP-101)."""
        if of.copied_record is None:
            stored = self._state(by).progress(of.assigned.spec, of.assigned.state_partition, of.at)
            if stored.record is None:
                return
            of.copied_record = CopiedRecord(*stored.record)
        epochs = {of.there: of.copied_record.epoch}
        end = value(requests.offset_for_leader_epoch(self._source, epochs, by)[of.there])
        if lost := of.copied_record.lost(position, end.end_offset):
            raise lost

    def _settle_tombstones(self, of: TransactionPartition, by: Deadline) -> None:
        """Store that tombstones may be missing, where they were read too late."""
        lost, now = of.tombstones, self._clock.now()
        if of.committed is None and not of.records:
            lost.caught_up = CaughtUp(now)
        if lost.hole is not None:
            self._runs.tombstones_missed(of.assigned, lost.hole, lost.caught_up, now, by)
            lost.hole, lost.settled_at = None, now


def _lasts(
    partitions: Sequence[TransactionPartition],
    positions: Mapping[TopicPartition, CommittedPosition | TanistError],
) -> Iterator[tuple[MirrorPartition, CopiedPosition]]:
    """Those that have a position of ours; what is wrong with another one is found when it recovers."""
    for each in partitions:
        with suppress(TanistError):
            if (held := positions.get(each.at)) is not None:
                yield each.at, _proved(each, value(held))


def _proved(of: TransactionPartition, held: CommittedPosition) -> CopiedPosition:
    """Raises as `copied_position`."""
    return copied_position(of.at, held.offset, held.metadata, of.assigned.spec.id, of.source_topic_id)
