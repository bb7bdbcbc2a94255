"""Where the copy of a partition goes on if the group of the mirror's positions has nothing of it.

It begins, or its position is lost: somebody has deleted the group, or brokers have expired it. A lost one is found
again from the last point that is known for certain: what was published of the map, or the position that was written
back to the source. What the copy has behind that point is what the source has behind it, in that order, so both logs
tell how far it has come. It is never reset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from tanist.domain.delivery import Delivery
from tanist.domain.errors import CouldNotTell, Stopped, TanistError, TimedOut
from tanist.domain.fake_group import MirrorPositionLost, MirrorTruncated, shown_group, shown_position
from tanist.domain.mapped_runs import first_runs, moved, without_records
from tanist.domain.names import DestinationOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.recovery import NotCommittedYet
from tanist.domain.restored_ranges import RestoredRanges
from tanist.fetcher.engines.transactions.batches_read import batches_read
from tanist.kafka.protocol.paired_records import pair
from tanist.kafka.wire import requests
from tanist.kafka.wire.groups import fetch_positions
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.names import MirrorPartition, SourceOffset
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.runs import OffsetRuns
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

log = logging.getLogger(__name__)

AT_A_TIME_SECONDS: Final = 5.0
"""Of reading both logs, before other partitions have their turn."""
ANSWER_SECONDS: Final = 2.0
"""The source's group is asked so long at most: what is published may be enough."""


class PositionBeingRestored(CouldNotTell):
    name = "POSITION_BEING_RESTORED"
    operator_action = "none: both logs are read on, from where reading has stopped"


@dataclass(slots=True)
class _Reading:
    """What was read of both logs. `known`: from where on; `topic_id`: of the mirror topic."""

    known: CopiedPosition
    topic_id: UUID | None
    found: RestoredRanges


class PositionRestoration:
    """Owned by the fetcher thread."""

    def __init__(self, routers: tuple[Router, Router], runs: OffsetRuns, tools: FetcherThreadTools) -> None:
        self._source, self._destination = routers
        self._runs = runs
        self._clock: Clock = tools.clock
        self._readings: dict[MirrorPartition, _Reading] = {}
        self._begun: dict[MirrorPartition, CopiedPosition] = {}

    def publish_begun(self) -> None:
        """Publish where copies have begun, if nothing else says it: else a lost position is not found again from there.

        That it cannot be done is logged, and hinders nothing.
        """
        begun, self._begun = self._begun, {}
        try:
            self._runs.publish(begun, self._clock.deadline(AT_A_TIME_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("where copies have begun is not published", extra={"error": why.name, "reason": why.reason})

    def position(self, of: TransactionPartition, copy: CopyEnds, start: SourceOffset, by: Deadline) -> CopiedPosition:
        """The first position of a copy, or the one that was lost. `start`: of the source's log.

        The next transaction commits it.

        What an aborted transaction has left is no record. What the mirror partition had when its topic was added lies
        before the copy.

        Raises:
            MirrorPositionLost: nothing says how far it was copied, and each record may be in it only once.
            MirrorTruncated: it lacks what is on record of it, or what it had when its topic was added.
            NotCommittedYet: its followers have not caught up. PositionBeingRestored: there is more to read.
            UnreadableRanges: what is on record is damaged.
        """
        if copy.high_watermark != copy.end:
            raise NotCommittedYet(f"{of.at}: the high watermark {copy.high_watermark} is below the end {copy.end}")
        known = self._known(of, by)
        last = known or self._begin(of, start)
        if copy.end < last.end:
            raise MirrorTruncated(f"{of.at} ends at {copy.end}, but had offsets up to {last.end}")
        if copy.start <= last.end and not self._has_records(of, last.end, copy.end, by):
            return self._nothing_copied_since(of, known, last, copy)
        return self._copied_since(of, known, last, copy, start)

    def _begin(self, of: TransactionPartition, start: SourceOffset) -> CopiedPosition:
        begin, end = of.assigned.source_start or start, of.assigned.copy_start
        return of.begin_at(begin, end, first_runs(begin, end))

    def _nothing_copied_since(
        self, of: TransactionPartition, known: CopiedPosition | None, last: CopiedPosition, copy: CopyEnds
    ) -> CopiedPosition:
        if known is not None:
            return replace(last, end=copy.end, runs=moved(last.runs, OffsetRange(last.position, copy.end)))
        begun = of.begin_at(last.position, copy.end, first_runs(last.position, copy.end))
        if last.position != of.assigned.source_start:
            self._begun[of.at] = begun
        return begun

    def _copied_since(
        self,
        of: TransactionPartition,
        known: CopiedPosition | None,
        last: CopiedPosition,
        copy: CopyEnds,
        start: SourceOffset,
    ) -> CopiedPosition:
        """The position behind what was copied behind `last`: that of each record, or `last` again."""
        if copy.start > last.end:
            why = f"the mirror partition begins at {copy.start}: older records are gone"
        elif last.position < start:
            why = f"the source begins at {start}: older records are gone"
        elif known is None and last.position not in {0, of.assigned.source_start}:
            why = "nothing says at which offset of the source it began"
        else:
            found = self._read(of, last, copy)
            if not isinstance(found, str):
                return self._restored(of, last, found, copy)
            why = found
        behind = max(DestinationOffset(copy.start), last.end)
        records = self._records(of, behind, copy.end)
        if of.assigned.spec.delivery is Delivery.EXACTLY_ONCE or known is None:
            raise MirrorPositionLost(
                f"the group of the mirror's positions has none of {of.at}, whose copy had come to source offset "
                f"{last.position} at offset {last.end}, and has {records} record(s) behind that: {why}"
            )
        of.note = (
            f"at least once: {records} record(s), at offsets {behind} to {copy.end} of the copy, "
            f"may be copied again: the mirror's position was lost ({why})"
        )
        log.warning("records are repeated", extra={"partition": str(of.at), "why": of.note})
        return replace(last, end=copy.end, runs=moved(last.runs, OffsetRange(last.position, copy.end)))

    def _restored(
        self, of: TransactionPartition, last: CopiedPosition, found: RestoredRanges, copy: CopyEnds
    ) -> CopiedPosition:
        """The position behind all records of the copy; its ranges are published, as they may be many."""
        del self._readings[of.at]
        runs = tuple(found.runs(copy.end))
        position = replace(last, position=found.position, end=copy.end, runs=runs, size=last.size + found.size)
        self._runs.publish({of.at: position}, self._clock.deadline(AT_A_TIME_SECONDS))
        of.note = (
            f"the mirror's position was lost, and is found again in both logs: source offset {found.position}, "
            f"{found.records} record(s) behind {last.position}"
        )
        log.warning("a position is restored", extra={"partition": str(of.at), "why": of.note})
        return replace(position, runs=without_records(runs), size=0)

    def _known(self, of: TransactionPartition, by: Deadline) -> CopiedPosition | None:
        """The last point that is certain; None: there is none but the beginning."""
        published = self._runs.published(of.at, by)
        found = [] if (shown := self._shown(of)) is None or shown.end < of.assigned.copy_start else [shown]
        if published and published[-1].destination >= of.assigned.copy_start:
            last = published[-1]
            found.append(of.begin_at(last.source, last.destination, without_records(published)))
        return max(found, key=lambda each: (each.position, each.end), default=None)

    def _shown(self, of: TransactionPartition) -> CopiedPosition | None:
        """What was written back to the source; None: nothing of this copy, or it does not tell."""
        group = shown_group(of.assigned.spec.mirror)
        try:
            by = self._clock.deadline(ANSWER_SECONDS)
            held = value(fetch_positions(self._source, [group], by, stable=False)[group]).get(of.there)
            ids = of.assigned.spec.id, of.source_topic_id
            return None if held is None else shown_position(of.at, *value(held), of.topic_id, *ids)
        except Stopped:
            raise
        except TanistError as why:
            log.warning("the position at the source is not known", extra={"error": why.name, "reason": why.reason})
            return None

    # ── both logs ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _has_records(self, of: TransactionPartition, start: int, until: DestinationOffset, by: Deadline) -> bool:
        """Whether the mirror partition has a committed record from `start` up to `until`."""
        return any(is_seen for _, _, is_seen in batches_read(self._destination, of.at, start, until, by))

    def _records(self, of: TransactionPartition, start: DestinationOffset, until: DestinationOffset) -> int:
        """How many it has, at most: where they are too many to be counted, how many offsets."""
        by = self._clock.deadline(AT_A_TIME_SECONDS)
        try:
            seen = batches_read(self._destination, of.at, start, until, by)
            return sum(header.record_count for header, _, is_seen in seen if is_seen)
        except TimedOut:
            return until - start

    def _read(self, of: TransactionPartition, last: CopiedPosition, copy: CopyEnds) -> RestoredRanges | str:
        """Where the records behind `last` are in both logs; or why that cannot be told.

        Raises:
            PositionBeingRestored: there is more to read.
        """
        reading = self._readings.get(of.at)
        if reading is None or (reading.known, reading.topic_id) != (last, of.topic_id):
            runs = last.runs or (OffsetRange(last.position, last.end),)
            reading = self._readings[of.at] = _Reading(last, of.topic_id, RestoredRanges(runs))
        found, by = reading.found, self._clock.deadline(AT_A_TIME_SECONDS)
        until = self._clock.deadline(AT_A_TIME_SECONDS * 2)
        try:
            end = value(requests.list_offsets(self._source, {of.there: End.LAST_STABLE}, until)[of.there])
            source = batches_read(self._source, of.there, found.read.source, end, until)
            mirrored = batches_read(self._destination, of.at, found.read.destination, copy.end, until)
            why = pair(source, end, takewhile(lambda _: by.left(self._clock.monotonic()) > 0, mirrored), found)
        except TimedOut:
            why = ""
        if why:
            del self._readings[of.at]
            return why
        if self._has_records(of, found.read.destination, copy.end, until):
            raise PositionBeingRestored(f"{of.at}: both logs are read up to source offset {found.position}")
        return found
