"""The destination side of a lane: appends in a pipeline, fills, and the log start.

Per request one batch of each partition and as many partitions as have one; several requests in flight on each
connection. A batch lands only right after our previous one (the broker's idempotence check), at the offset that was
expected, or the partition recovers.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnknownTopicOrPartition,
    UnsupportedCompression,
)
from tanist.domain.copying import Append, Fill
from tanist.domain.errors import CouldNotTell, RecordRefused, RecordTooLarge, Sealed, Stopped, TanistError
from tanist.domain.names import DestinationOffset, after
from tanist.domain.offset_map import OffsetRun
from tanist.fetcher.alignment import Alignment
from tanist.fetcher.copy import Phase, Sent
from tanist.fetcher.filling import Filling
from tanist.protocol.batch import patch
from tanist.protocol.codes import NONE, error_for
from tanist.wire import requests
from tanist.wire.hot import Appends
from tanist.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.names import BrokerId, SourceOffset
    from tanist.fetcher.copy import PartitionCopy
    from tanist.fetcher.runs import OffsetRuns
    from tanist.fetcher.tools import LaneTools
    from tanist.protocol.batch import BatchHeader
    from tanist.protocol.frames import ProducedPartition
    from tanist.wire.router import Router

log = logging.getLogger(__name__)

DEPTH: Final = 4
"""Requests in flight on a connection; the broker recognises a producer's last five batches (ProducerStateEntry)."""
REPLICATION_MS: Final = 10_000
ANSWER_SECONDS: Final = 15.0
CONTROL_SECONDS: Final = 10.0
TEND_EVERY_SECONDS: Final = 5.0
FORGETS_EARLY_MS: Final = 60_000
"""The broker's clock and ours may differ by as much."""
DATA_EPOCH: Final = 0


class Misplaced(CouldNotTell):
    name = "MISPLACED"
    operator_action = "none: the shift is on record and both logs are read again"


class _Posted(NamedTuple):
    appends: Appends
    broker: BrokerId
    sent: list[tuple[PartitionCopy, Sent]]


class Appending:
    """Owned by the lane's thread."""

    def __init__(self, destination: Router, runs: OffsetRuns, tools: LaneTools) -> None:
        self._destination = destination
        self._runs = runs
        self._claims = tools.claims
        self._clock = tools.clock
        self._remembered_ms = tools.remembered_ms
        self._filling = Filling(destination, tools.claims, tools.clock)
        self._alignment = Alignment(destination, tools.clock)
        self._connections: dict[BrokerId, Appends] = {}
        self._posted: deque[_Posted] = deque()
        self._tend_at = 0.0

    # ── the steps of all partitions ───────────────────────────────────────────────────────────────────────────────

    def append(self, copies: Sequence[PartitionCopy], until: Callable[[], bool]) -> None:
        """Do all steps of `copies`, then collect answers until there are none left or `until` says that more came."""
        while True:
            self._make_room()
            busy = [copy for copy in copies if copy.steps]  # after the answers: they may have taken some away
            if not busy:
                break
            if not self._send(busy) and self._posted:
                self._collect()
        while self._posted and not until():
            self._collect()

    def _make_room(self) -> None:
        while any(appends.in_flight >= DEPTH for appends in self._connections.values()):
            self._collect()

    def _send(self, busy: Sequence[PartitionCopy]) -> bool:
        """One step of each copy that can do one; False: all wait for answers."""
        gaps: list[PartitionCopy] = []
        batches: defaultdict[BrokerId, list[tuple[PartitionCopy, Sent, memoryview]]] = defaultdict(list)
        for copy in busy:
            step = copy.steps[0]
            if isinstance(step, Append):
                if self._may_send(copy, step) and (leader := self._leader(copy)) is not None:
                    batches[leader].append((copy, *self._prepare(copy, step)))
            elif copy.in_flight:
                continue
            elif isinstance(step, Fill):
                gaps.append(copy)
            else:
                copy.recover(step.error, self._clock.monotonic())
        for broker, ready in batches.items():
            self._post(broker, ready)
        if gaps:
            self._fill(gaps)
        return bool(batches or gaps or any(not copy.steps for copy in busy))

    def _may_send(self, copy: PartitionCopy, step: Append[BatchHeader, memoryview]) -> bool:
        old = step.header.max_timestamp < self._clock.now() - self._remembered_ms + FORGETS_EARLY_MS
        careful = copy.alone or old or copy.after_old
        if len(copy.in_flight) >= (1 if careful else DEPTH):
            return False
        if copy.map_unchecked and not self._map_agrees(copy, step.start):
            return False
        if (old or copy.after_old) and (why := self._claims.objection(copy.assigned)):
            copy.recover(why, self._clock.monotonic())
            return False
        copy.after_old = old
        return True

    def _map_agrees(self, copy: PartitionCopy, start: SourceOffset) -> bool:
        """Before the first append after a gap or a recovery: the map must already say where it will land."""
        if copy.end < start:
            copy.steps.appendleft(Fill(start, start))  # fillers were lost with a leader
            return False
        if copy.offsets.locate(start) != copy.end:
            try:
                self._write_run(copy, OffsetRun(start, copy.end), "ahead")
            except Stopped:
                raise
            except TanistError as why:
                copy.recover(why, self._clock.monotonic())
                return False
        copy.map_unchecked = False
        return True

    def _write_run(self, copy: PartitionCopy, run: OffsetRun, why: str) -> None:
        log.info("wrote offset run", extra={"partition": str(copy.partition), "run": str(run), "why": why})
        copy.offsets = self._runs.write(copy.assigned, [run], why, self._clock.deadline(CONTROL_SECONDS))

    def _prepare(self, copy: PartitionCopy, step: Append[BatchHeader, memoryview]) -> tuple[Sent, memoryview]:
        header, batch = step.header, step.payload
        patch(batch, copy.assigned.spec.data_id, DATA_EPOCH, copy.sequence)
        sent = Sent(copy.end, step.start, step.until, header.record_count, header.size, header.leader_epoch)
        copy.steps.popleft()
        copy.in_flight.append(sent)
        copy.sequence = after(copy.sequence, header.record_count)
        copy.end = DestinationOffset(copy.end + header.record_count)
        return sent, batch

    # ── the pipeline ──────────────────────────────────────────────────────────────────────────────────────────────

    def _leader(self, copy: PartitionCopy) -> BrokerId | None:
        try:
            return self._destination.leader(copy.partition)
        except TanistError as why:
            copy.recover(why, self._clock.monotonic())
            return None

    def _post(self, broker: BrokerId, ready: Sequence[tuple[PartitionCopy, Sent, memoryview]]) -> None:
        by = self._clock.deadline(ANSWER_SECONDS)
        sent = [(copy, each) for copy, each, _ in ready]
        try:
            appends = self._open(broker)
            self._posted.append(_Posted(appends, broker, sent))
            appends.post([copy.to_append(batch) for copy, _, batch in ready], by)
        except Stopped:
            raise
        except TanistError as why:
            self._lost(broker, sent, why)

    def _open(self, broker: BrokerId) -> Appends:
        held = self._connections.get(broker)
        if held is None or held.connection.lost:
            by = self._clock.deadline(CONTROL_SECONDS)
            connection = self._destination.connection(broker, by, lane="append")
            held = self._connections[broker] = Appends(connection, REPLICATION_MS)
        return held

    def _collect(self) -> None:
        """The oldest answer of all."""
        posted = self._posted.popleft()
        try:
            answer = posted.appends.collect(self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            self._lost(posted.broker, posted.sent, why)
            return
        for (copy, sent), produced in zip(posted.sent, answer.partitions, strict=True):
            copy.in_flight.popleft()
            if copy.phase is Phase.COPY:
                self._answered(copy, sent, produced)

    def _answered(self, copy: PartitionCopy, sent: Sent, answer: ProducedPartition) -> None:
        if answer.error_code != NONE:
            why = error_for(answer.error_code, f"append to {copy.partition} at {sent.expected}: {answer.message}")
            copy.recover(_final(why), self._clock.monotonic())
        elif answer.base_offset == sent.expected:
            copy.landed(sent)
        else:
            self._misplaced(copy, sent, DestinationOffset(answer.base_offset))

    def _misplaced(self, copy: PartitionCopy, sent: Sent, base: DestinationOffset) -> None:
        """A duplicate of an earlier append, or a shift. A shift goes on record at once; both logs decide the rest."""
        why: TanistError = Misplaced(f"{copy.partition}: appended at {base}, not at {sent.expected}")
        copy.suspect_from = sent.expected
        if base > sent.expected and copy.offsets.locate(sent.start) != base:
            try:
                self._write_run(copy, OffsetRun(sent.start, base), "answer")
            except Stopped:
                raise
            except TanistError as unwritten:
                why = unwritten
        copy.recover(why, self._clock.monotonic())

    def _lost(self, broker: BrokerId, sent: Iterable[tuple[PartitionCopy, Sent]], why: TanistError) -> None:
        """Nobody knows what of all that was in flight to this broker has landed: all of it recovers."""
        self._connections.pop(broker, None)
        self._destination.drop(broker)
        gone = [posted for posted in self._posted if posted.broker == broker]
        self._posted = deque(posted for posted in self._posted if posted.broker != broker)
        given_up = [*sent, *(each for posted in gone for each in posted.sent)]
        for copy, each in given_up:
            if each in copy.in_flight:  # what is on its way to another broker still gets its answer
                copy.in_flight.remove(each)
        concerned = {id(copy): copy for copy, _ in given_up}
        for copy in concerned.values():
            copy.recover(why, self._clock.monotonic())
        self._look_for_leaders({copy.partition.topic for copy in concerned.values()})

    def _look_for_leaders(self, topics: Iterable[str]) -> None:
        try:
            self._destination.refresh(sorted(topics), self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("destination does not tell its leaders", extra={"reason": why.reason})

    # ── gaps and log starts ───────────────────────────────────────────────────────────────────────────────────────

    def _fill(self, gaps: Sequence[PartitionCopy]) -> None:
        try:
            failed = self._filling.fill(gaps, self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            failed = {copy.partition: why for copy in gaps}
        for copy in gaps:
            if copy.partition in failed:
                copy.recover(failed[copy.partition], self._clock.monotonic())

    def align(self, copies: Iterable[PartitionCopy]) -> None:
        """The next chunk of each; an aligned copy recovers, which finds it aligned."""
        for copy in copies:
            leader = self._leader(copy)
            if leader is None:
                continue
            while self._posted:
                self._collect()
            try:
                self._claims.must_hold(copy.assigned)
                if self._alignment.step(copy, self._open(leader), self._clock.deadline(CONTROL_SECONDS)):
                    copy.recover(None, self._clock.monotonic())
            except Stopped:
                raise
            except TanistError as why:
                self._connections.pop(leader, None)
                self._destination.drop(leader)
                copy.recover(why, self._clock.monotonic())

    def tend(self, copies: Sequence[PartitionCopy]) -> None:
        """Now and then, what no append would show: a copy that somebody changed, and a source that deleted records."""
        now = self._clock.monotonic()
        if now >= self._tend_at:
            self._tend_at = now + TEND_EVERY_SECONDS
            self._look_at_ends([copy for copy in copies if copy.phase is Phase.COPY and copy.quiet])
            self._trim(copies)

    def _look_at_ends(self, idle: Sequence[PartitionCopy]) -> None:
        """An idle copy whose end moved without us recovers: both logs tell what landed there, or what is gone."""
        by = self._clock.deadline(CONTROL_SECONDS)
        try:
            marks = requests.list_offsets(self._destination, {c.partition: End.HIGH_WATERMARK for c in idle}, by)
        except Stopped:
            raise
        except TanistError as why:
            log.warning("idle copies were not looked at", extra={"reason": why.reason})
            return
        for copy in idle:
            mark = marks[copy.partition]
            if isinstance(mark, UnknownTopicOrPartition):
                copy.recover(mark, self._clock.monotonic())
            elif isinstance(mark, int) and mark != copy.end:  # shorter: what was acknowledged is gone
                copy.suspect_from = copy.end
                copy.recover(None, self._clock.monotonic())

    def _trim(self, copies: Iterable[PartitionCopy]) -> None:
        """Where the source has deleted records, so does the copy: its log start follows (KIP-1279)."""
        wanted = {copy.partition: (copy, offset) for copy in copies if (offset := _start_to_follow(copy)) is not None}
        offsets = {at: offset for at, (_, offset) in wanted.items()}
        try:
            answers = requests.delete_records(self._destination, offsets, self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            answers = dict.fromkeys(offsets, why)
        for at, answer in answers.items():
            if isinstance(answer, TanistError):
                log.warning("log start does not follow", extra={"partition": str(at), "reason": answer.reason})
            else:
                wanted[at][0].copy_start = DestinationOffset(answer)


def _start_to_follow(copy: PartitionCopy) -> DestinationOffset | None:
    if copy.phase is not Phase.COPY or copy.landed_end is None:
        return None
    start = copy.offsets.locate(copy.source_log_start)
    return start if copy.copy_start < start <= copy.landed_end else None


def _final(why: TanistError) -> TanistError:
    """What a refused append means for its partition: some refusals never change by themselves."""
    if isinstance(why, MessageTooLarge | RecordListTooLarge):
        return RecordTooLarge(why.reason)
    if isinstance(why, InvalidRecord | InvalidTimestamp | UnsupportedCompression):
        return RecordRefused(why.reason)
    if isinstance(why, InvalidProducerEpoch):
        return Sealed(why.reason)
    return why
