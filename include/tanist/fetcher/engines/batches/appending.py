"""The destination side of a fetcher thread: pipelined appends, gap fills, log starts. `domain.appending` decides.

A request has one batch of each partition that has one; several requests are in flight on each connection. The broker's
idempotence check accepts a batch only directly after our previous one. If it is not at the expected offset, the
partition recovers.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.appending import (
    DEPTH,
    Misplaced,
    Move,
    next_move,
    remembered_since,
    shifted,
    translate_refusal,
)
from tanist.domain.broker_errors import InvalidRecord, MessageTooLarge, RecordListTooLarge
from tanist.domain.compaction import Holes
from tanist.domain.copying import Append, Refuse
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import DestinationOffset
from tanist.domain.writer_identity import COPYING_EPOCH
from tanist.fetcher.engines.batches.filling import Filling, StartFilling
from tanist.fetcher.engines.engine import Phase
from tanist.kafka.protocol.batch import BatchHeader, patch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.connection import wait_for_any
from tanist.kafka.wire.hot import Appends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.appending import Sent
    from tanist.domain.names import BrokerId
    from tanist.domain.offset_map import OffsetMap, OffsetRange
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.fetcher.runs import OffsetRuns
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.protocol.frames import ProducedPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

log = logging.getLogger(__name__)

REPLICATION_MS: Final = 10_000
ANSWER_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 0.2
"""How long all partitions of a thread wait for a destination broker; then it is slow, and its partitions wait alone."""
LISTEN_SECONDS: Final = 0.02
"""How often it is looked whether the source has answered, while answers of the destination are awaited."""
CONTROL_SECONDS: Final = 10.0


class _Posted(NamedTuple):
    """One request, and until when it must be answered."""

    appends: Appends
    sent: list[tuple[BatchPartition, Sent[BatchHeader]]]
    by: Deadline


class Appending:
    """Owned by the fetcher thread."""

    def __init__(self, destination: Router, runs: OffsetRuns, tools: FetcherThreadTools) -> None:
        self._destination = destination
        self._runs = runs
        self._claims = tools.claims
        self._clock = tools.clock
        self._remembered_ms = tools.remembered_ms
        self._filling = Filling(destination, tools.claims, tools.clock)
        self._alignment = StartFilling(destination, tools.clock)
        self._throttle = tools.throttle
        self._mirror = tools.spec.mirror
        self._connections: dict[BrokerId, Appends] = {}
        self._posted: dict[BrokerId, deque[_Posted]] = {}
        """What each broker has not answered yet; no broker without any."""
        self._muted: dict[BrokerId, float] = {}
        """Until when, monotonic seconds, a broker throttles this client, and reads nothing that it sends (KIP-219)."""
        self._slow: set[BrokerId] = set()
        """Brokers that others do not wait for, until they have answered."""

    # ── the steps of all partitions ───────────────────────────────────────────────────────────────────────────────

    def append(self, partitions: Sequence[BatchPartition], until: Callable[[], bool]) -> None:
        """Do all steps, then collect answers until none are left or `until` returns True.

        Partitions of a broker that is slow, or throttles, keep their steps for a later call.
        """
        while True:
            self._collect()
            busy = [each for each in partitions if each.pipeline.steps]  # after the answers: they may have taken some
            if not busy:
                break
            if not self._send(busy) and not self._await_room(busy):
                break
        while self._posted and not until():
            self._listen(self._posted, LISTEN_SECONDS)

    def waits(self, of: BatchPartition) -> bool:
        """Whether what is read of it now could not be appended: its broker is slow, or throttles this client."""
        if not self._muted and not self._slow:
            return False
        try:
            leader = self._destination.leader(of.at)
        except TanistError:
            return False
        return not self._takes_more(leader)

    def _takes_more(self, broker: BrokerId) -> bool:
        if broker in self._slow:
            return False
        if broker in self._muted and self._muted[broker] <= self._clock.monotonic():
            del self._muted[broker]
        return broker not in self._muted

    def _await_room(self, busy: Sequence[BatchPartition]) -> bool:
        """Wait for answers to `busy`; False: those that still wait keep their steps, and nobody waits for them."""
        leaders = {leader for each in busy if (leader := self._leader(each)) is not None}
        awaited = {broker for broker in leaders if broker in self._posted and self._takes_more(broker)}
        if awaited and self._listen(awaited, PATIENCE_SECONDS):
            return True
        self._slow |= awaited
        for each in busy:
            each.keep_steps()
        return False

    def _listen(self, brokers: Iterable[BrokerId], seconds: float) -> bool:
        """Wait until any of `brokers` has answered, and collect; whether any has."""
        heads = [self._posted[broker][0] for broker in brokers]
        wait_for_any([each.appends.connection for each in heads if not each.appends.early], seconds)
        return self._collect()

    def _send(self, busy: Sequence[BatchPartition]) -> bool:
        """Do one step of each partition that can; False: all wait for answers."""
        gaps: list[BatchPartition] = []
        batches: defaultdict[BrokerId, list[tuple[BatchPartition, Sent[BatchHeader], memoryview]]] = defaultdict(list)
        oldest = remembered_since(self._clock.now(), self._remembered_ms)
        for each in busy:
            move = next_move(each.pipeline, oldest)
            if move is Move.WAIT or not self._has_room(each):
                continue
            if move is Move.EXTEND_MAP:
                move = self._extend_map(each, oldest)
            if move is Move.APPEND or (move is Move.APPEND_UNDER_LEASE and self._leased(each)):
                each.one_by_one = move is Move.APPEND_UNDER_LEASE
                if (leader := self._leader(each)) is not None:
                    batches[leader].append((each, *self._prepare(each)))
            elif move is Move.FILL_GAP:
                gaps.append(each)
            elif move is Move.FAIL and isinstance(step := each.pipeline.steps[0], Refuse):
                each.halt(step.error, self._clock.monotonic())
        for broker, ready in batches.items():
            self._post(broker, ready)
        if gaps:
            self._fill(gaps)
        return bool(batches or gaps or any(not each.pipeline.steps for each in busy))

    def _has_room(self, of: BatchPartition) -> bool:
        """Whether its broker takes another request; True also where no leader is known, which the append finds out."""
        try:
            leader = self._destination.leader(of.at)
        except TanistError:
            return True
        return len(self._posted.get(leader, ())) < DEPTH and self._takes_more(leader)

    def _extend_map(self, of: BatchPartition, oldest: int) -> Move:
        """Write the map range of the next batch; returns the next move."""
        pipeline = of.pipeline
        try:
            pipeline.map_extended(self._write_run(of, pipeline.missing_range, "ahead"))
        except Stopped:
            raise
        except TanistError as why:
            of.halt(why, self._clock.monotonic())
            return Move.WAIT
        return next_move(pipeline, oldest)

    def _leased(self, of: BatchPartition) -> bool:
        if why := self._claims.objection(of.assigned):
            of.halt(why, self._clock.monotonic())
        return why is None

    def _write_run(self, of: BatchPartition, run: OffsetRange, why: str) -> OffsetMap:
        log.info("wrote offset run", extra={"partition": str(of.at), "run": str(run), "why": why})
        return self._runs.write(of.assigned, [run], why, self._clock.deadline(CONTROL_SECONDS))

    def _prepare(self, of: BatchPartition) -> tuple[Sent[BatchHeader], memoryview]:
        """The next batch, with its header patched."""
        pipeline = of.pipeline
        step = pipeline.steps[0]
        assert isinstance(step, Append)  # noqa: S101  # `next_move` has said so
        batch = step.payload
        patch(batch, of.assigned.spec.data_id, COPYING_EPOCH, pipeline.sequence)
        return pipeline.sent(), batch

    # ── the pipeline ──────────────────────────────────────────────────────────────────────────────────────────────

    def _leader(self, of: BatchPartition) -> BrokerId | None:
        try:
            return self._destination.leader(of.at)
        except TanistError as why:
            of.halt(why, self._clock.monotonic())
            return None

    def _post(self, broker: BrokerId, ready: Sequence[tuple[BatchPartition, Sent[BatchHeader], memoryview]]) -> None:
        by = self._clock.deadline(ANSWER_SECONDS)
        sent = [(of, each) for of, each, _ in ready]
        try:
            appends = self._open(broker)
            self._posted.setdefault(broker, deque()).append(_Posted(appends, sent, by))
            appends.post([of.to_append(batch) for of, _, batch in ready], by)
        except Stopped:
            raise
        except TanistError as why:
            self._lost(broker, sent, why)

    def _open(self, broker: BrokerId) -> Appends:
        held = self._connections.get(broker)
        if held is None or held.connection.lost:
            by = self._clock.deadline(CONTROL_SECONDS)
            connection = self._destination.connection(broker, by, channel="append")
            held = self._connections[broker] = Appends(connection, REPLICATION_MS)
        return held

    def _collect(self) -> bool:
        """Take every answer that is there; whether there was any. What was not answered in time is lost."""
        before = sum(map(len, self._posted.values()))
        for broker in list(self._posted):
            while (heads := self._posted.get(broker)) and (heads[0].appends.readable or self._is_late(heads[0])):
                self._take(broker)
        return sum(map(len, self._posted.values())) < before

    def _is_late(self, posted: _Posted) -> bool:
        return not posted.by.left(self._clock.monotonic())

    def _take(self, broker: BrokerId) -> None:
        """The oldest outstanding answer of `broker`."""
        posted = self._posted[broker][0]
        try:
            answer = posted.appends.collect(posted.by)
        except Stopped:
            raise
        except TanistError as why:
            self._lost(broker, (), why)
            return
        self._slow.discard(broker)
        self._posted[broker].popleft()
        if not self._posted[broker]:
            del self._posted[broker]
        if answer.throttle_ms > 0:
            self._muted[broker] = self._clock.monotonic() + answer.throttle_ms / 1000
        for (of, sent), produced in zip(posted.sent, answer.partitions, strict=True):
            of.pipeline.in_flight.popleft()
            if of.pipeline.halted is None:
                self._answered(of, sent, produced)

    def _answered(self, of: BatchPartition, sent: Sent[BatchHeader], answer: ProducedPartition) -> None:
        if answer.error_code != NONE:
            why = error_for(answer.error_code, _refusal(of, sent, answer.message))
            of.halt(self._refused(of, sent, why), self._clock.monotonic())
        elif answer.base_offset == sent.expected:
            of.landed(sent, self._clock.now())
        else:
            self._misplaced(of, sent, DestinationOffset(answer.base_offset))

    @staticmethod
    def _refused(of: BatchPartition, sent: Sent[BatchHeader], why: TanistError) -> TanistError | None:
        """The error of the partition; None: other batches are made of its records, which may be taken."""
        if isinstance(why, InvalidRecord) and of.holes is Holes.COPIES and not of.keyed:
            of.keyed = True
            return None
        too_large = isinstance(why, MessageTooLarge | RecordListTooLarge)
        if too_large and (smaller := of.merging.refused(sent.header.size)):
            of.merging = smaller
            return None
        return translate_refusal(why)

    def _misplaced(self, of: BatchPartition, sent: Sent[BatchHeader], base: DestinationOffset) -> None:
        """A duplicate of an earlier append, or a shift. Record a shift at once; the recovery decides the rest."""
        why: TanistError = Misplaced(f"{of.at}: appended at {base}, not at {sent.expected}")
        if missing := shifted(of.pipeline, sent, base):
            try:
                self._write_run(of, missing, "answer")
            except Stopped:
                raise
            except TanistError as unwritten:
                why = unwritten
        of.halt(why, self._clock.monotonic(), suspect_from=sent.expected)

    def _lost(
        self, broker: BrokerId, sent: Iterable[tuple[BatchPartition, Sent[BatchHeader]]], why: TanistError
    ) -> None:
        """The result of everything in flight to this broker is unknown: all its partitions recover."""
        self._connections.pop(broker, None)
        self._destination.drop(broker)
        self._slow.discard(broker)
        gone = self._posted.pop(broker, ())
        given_up = [*sent, *(each for posted in gone for each in posted.sent)]
        for of, each in given_up:
            if each in of.pipeline.in_flight:  # what is on its way to another broker still gets its answer
                of.pipeline.in_flight.remove(each)
        concerned = {id(of): of for of, _ in given_up}
        for of in concerned.values():
            of.halt(why, self._clock.monotonic())
        self._look_for_leaders({of.at.topic for of in concerned.values()})

    def _look_for_leaders(self, topics: Iterable[str]) -> None:
        try:
            self._destination.refresh(sorted(topics), self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("destination does not tell its leaders", extra={"reason": why.reason})

    # ── gaps and log starts ───────────────────────────────────────────────────────────────────────────────────────

    def _fill(self, gaps: Sequence[BatchPartition]) -> None:
        try:
            failed = self._filling.fill_gaps(gaps, self._clock.deadline(CONTROL_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            failed = {each.at: why for each in gaps}
        for each in gaps:
            if each.at in failed:
                each.halt(failed[each.at], self._clock.monotonic())

    def fill_start(self, of: BatchPartition) -> Phase | TanistError:
        """Write the next chunk: FILL_START while more is missing, then RECOVER; or the error."""
        try:
            leader = self._destination.leader(of.at)
        except TanistError as why:
            of.start_fill = None
            return why
        while self._posted.get(leader):  # the same connection is used
            self._take(leader)
        try:
            self._claims.must_hold(of.assigned)
            if not self._alignment.step(of, self._open(leader), self._clock.deadline(CONTROL_SECONDS)):
                return Phase.FILL_START
        except Stopped:
            raise
        except TanistError as why:
            self._connections.pop(leader, None)
            self._destination.drop(leader)
            of.start_fill = None
            return why
        of.start_fill = None
        return Phase.RECOVER


def _refusal(of: BatchPartition, sent: Sent[BatchHeader], message: str) -> str:
    header = sent.header
    what = f"source offsets {sent.start} to {sent.until - 1} ({header.record_count} record(s), {header.size} bytes)"
    return f"{of.at} does not take {what} at {sent.expected}{f': {message}' if message else ''}"
