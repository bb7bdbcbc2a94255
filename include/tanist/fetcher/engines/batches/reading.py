"""The source side of a fetcher thread: one fetch in flight for all its partitions; decides on arrival."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import (
    InconsistentTopicId,
    NotLeader,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from tanist.domain.compaction import Holes
from tanist.domain.copying import AbortedTransaction, Fill, Refuse, Step, decide
from tanist.domain.errors import CorruptBatch, CouldNotTell, PartitionBroken, Stopped, TanistError
from tanist.domain.names import EpochMs, SourceOffset
from tanist.fetcher.engines.batches.evidence import ends_abort
from tanist.fetcher.engines.batches.lost_tombstones import first_hole
from tanist.kafka.protocol.batch import split, walk
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.fetch_session import FetchSession
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.protocol.merging import sample, walk_merged
from tanist.kafka.protocol.refilling import refilled, split_at_holes
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Fetches
from tanist.kafka.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.names import BrokerId
    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

FETCH_BYTES: Final = 8 << 20
"""Bytes of one answer; a fetcher thread has two buffers. A larger batch is still returned whole (KIP-74)."""
PARTITION_BYTES: Final = 1 << 20
MOST_PARTITION_BYTES: Final = 4 << 20
ONE_BY_ONE_BYTES: Final = 64 << 10
"""Of a partition whose batches are appended one by one: all others of the thread wait until they are."""
WAIT_MS: Final = 500
HURRY_MS: Final = 20
REST_SECONDS: Final = 1.0
"""How long offsets without a record wait for one that follows: gap markers carry the current time."""
ANSWER_SECONDS: Final = 15.0
TRUE_ENDS_SECONDS: Final = 3.0
"""How often the leader is asked for them; with the answer and what comes before it less than `LOG_END_AGE_MS`."""
TRUE_ENDS_ANSWER_SECONDS: Final = 1.0
IDLE_LOOKS: Final = 5
"""Every so often the leader is asked for all of them, also for logs that do not move."""


class SourceReading:
    """Owned by the fetcher thread."""

    def __init__(self, source: Router, broker: BrokerId, clock: Clock) -> None:
        self.stale = False
        """A leader has moved, or this broker does not answer."""
        self._source = source
        self._broker = broker
        self._clock = clock
        self._buffers = (ReceiveBuffer(), ReceiveBuffer())
        self._fetches: Fetches | None = None
        self._posted: list[BatchPartition] = []
        self._turn = 0
        self._asked_at = clock.now()
        self._wait_ms = 0
        self._true_ends_at = float("-inf")
        self._looks = 0

    def post(self, partitions: Sequence[BatchPartition], *, hurry: bool) -> bool:
        """Send a fetch for `partitions`; False: there was nothing to fetch, or no connection.

        The order of partitions rotates, because only the first is sure of its share (KIP-74). `hurry`: other work
        waits, so do not wait long for new records.
        """
        now = self._clock.monotonic()
        self._posted = _rotated([each for each in partitions if each.source.read_again_at <= now], self._turn)
        if not self._posted:
            return False
        self._turn += 1
        self._asked_at = self._clock.now()
        self._wait_ms = HURRY_MS if hurry else WAIT_MS
        limits = FetchLimits(max_wait_ms=self._wait_ms, max_bytes=FETCH_BYTES)
        size = max(PARTITION_BYTES, min(MOST_PARTITION_BYTES, FETCH_BYTES // len(self._posted)))
        positions = [each.position(ONE_BY_ONE_BYTES if each.one_by_one else size) for each in self._posted]
        try:
            self._open().post(positions, limits, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except CouldNotTell as why:
            self._lost(why)
            return False
        return True

    def look_at_true_ends(self, partitions: Sequence[BatchPartition]) -> None:
        """Ask the leader from time to time where its logs really end: fetches tell only what is committed.

        The reserve of an unplanned failover begins there. If nothing is answered, the last answer stays. Logs that
        have not moved since are asked for less often.
        """
        now = self._clock.monotonic()
        if self.stale or now - self._true_ends_at < TRUE_ENDS_SECONDS:
            return
        self._true_ends_at, self._looks = now, self._looks + 1
        known = {each.there: each.source for each in partitions if each.source.error is None}
        idle_too = self._looks % IDLE_LOOKS == 1
        served = {at: source for at, source in known.items() if idle_too or source.end != source.asked_end}
        if not served:
            return
        by = self._clock.deadline(TRUE_ENDS_ANSWER_SECONDS)
        try:
            found = list_offsets(self._source, dict.fromkeys(served, End.LOG_END), by)
        except Stopped:
            raise
        except TanistError:
            return
        for at, end in found.items():
            if not isinstance(end, TanistError):
                served[at].asked_end, served[at].log_end = served[at].end, SourceOffset(end)

    def _open(self) -> Fetches:
        if self._fetches is None or self._fetches.connection.lost:
            by = self._clock.deadline(ANSWER_SECONDS)
            if self._broker not in self._source.brokers:
                self._source.refresh(sorted({each.there.topic for each in self._posted}), by)
            connection = self._source.connection(self._broker, by, channel="fetch")
            self._fetches = Fetches(connection, FetchSession())
        return self._fetches

    def ready(self) -> bool:
        """Whether an answer has arrived."""
        return self._fetches is not None and self._fetches.readable

    def take(self) -> None:
        """Take the answer to the posted fetch, and decide for each batch what to do."""
        buffer = self._buffers[self._turn % 2]
        assert self._fetches is not None  # noqa: S101  # `post` has said so
        try:
            answer = self._fetches.receive(buffer, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            self._lost(why)
            return
        self.stale = False
        if not answer.looked:
            return
        asked = {(each.there.topic, each.there.partition): each for each in self._posted}
        answered_at = self._answered_at(answer.partitions)
        first = next((each for each in answer.partitions if len(each.records)), None)
        for fetched in answer.partitions:
            of = asked.pop((fetched.topic, fetched.partition))
            self._take(of, fetched, answered_at, is_whole=fetched is first)
        for each in asked.values():
            self._unchanged(each, answered_at)

    def _answered_at(self, partitions: Iterable[FetchedPartition]) -> EpochMs:
        """The earliest time at which the answer can have been made.

        It may have waited in the socket of a busy or frozen process since. Without records the leader has waited for
        some as long as it was asked to.
        """
        if any(each.records or each.error_code != NONE or each.diverging is not None for each in partitions):
            return self._asked_at
        return EpochMs(min(self._clock.now(), self._asked_at + self._wait_ms))

    def _lost(self, why: TanistError) -> None:
        """Read both logs again: the topic may have been re-created when the broker answers next."""
        self.stale = True
        self._source.drop(self._broker)
        now, epoch = self._clock.monotonic(), self._clock.now()
        for each in self._posted:
            each.source.refused(why, now, epoch)
            each.halt(None, now)

    def _unchanged(self, of: BatchPartition, answered_at: EpochMs) -> None:
        """The source has answered, and has no news of it (KIP-227)."""
        of.source.still(answered_at)
        if not of.pipeline.halted:
            of.compared(self._asked_at)
            self._rest(of)

    def _take(self, of: BatchPartition, fetched: FetchedPartition, answered_at: EpochMs, *, is_whole: bool) -> None:
        """`is_whole`: of the first partition with records the broker sends at least one batch (KIP-74)."""
        pipeline = of.pipeline
        if fetched.error_code == NONE:  # also of a halted one: these numbers come once in a session
            of.source.served(answered_at, fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset)
        if pipeline.halted:
            return  # an append failed meanwhile: what was fetched ahead of it is void
        if fetched.error_code != NONE:
            self._refused(of, error_for(fetched.error_code, f"fetch of {of.there} at {of.fetch_from}"))
            return
        if fetched.diverging is not None:
            of.diverged(SourceOffset(fetched.diverging[1]), self._clock.monotonic())
            return
        if self._read_too_late(of, fetched):
            return
        small = of.assigned.merges
        of.merging = of.merging.seen(*sample(fetched.records)) if small else replace(of.merging, on=False)
        before, progressed = len(pipeline.steps), pipeline.take(*_steps(of, fetched))
        if len(pipeline.steps) > before:
            of.resting_since = None
        elif progressed or not len(fetched.records):
            self._rest(of)
        elif is_whole:
            broken = CorruptBatch(f"the batch at source offset {of.fetch_from} has a corrupt length")
            of.halt(broken, self._clock.monotonic())

    def _read_too_late(self, of: BatchPartition, fetched: FetchedPartition) -> bool:
        """Whether tombstones may be gone from this answer. Then recovery compares both logs first."""
        lost = of.tombstones
        of.compared(self._asked_at)
        if not of.reads_too_late(self._clock.now()):
            return False
        lost.hole = first_hole(of.pipeline.position, split(fetched.records))
        if lost.hole is not None:
            of.halt(None, self._clock.monotonic())
        return lost.hole is not None

    def _rest(self, of: BatchPartition) -> None:
        """Offsets without a record that none follows get gap markers after a while: so both logs end alike."""
        pipeline, now = of.pipeline, self._clock.monotonic()
        if of.holes is not Holes.COPIES or not pipeline.quiet:
            return
        if pipeline.end >= pipeline.position:
            pipeline.rested()
            of.compared(self._asked_at)
        elif of.resting_since is None:
            of.resting_since = now
        elif now - of.resting_since >= REST_SECONDS:
            pipeline.take([Fill(SourceOffset(pipeline.end), pipeline.position)])

    def _refused(self, of: BatchPartition, why: TanistError) -> None:
        self.stale = self.stale or isinstance(why, NotLeader) or why.retriable
        now = self._clock.monotonic()
        if isinstance(why, OffsetOutOfRange | UnknownTopicOrPartition | UnknownTopicId | InconsistentTopicId):
            # Both logs tell which end was overrun; and a topic that comes back may be another one, already longer.
            of.halt(why, now)
        else:
            of.source.refused(why, now, self._clock.now())


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


def _rotated(partitions: list[BatchPartition], turn: int) -> list[BatchPartition]:
    if not partitions:
        return partitions
    first = turn % len(partitions)
    return partitions[first:] + partitions[:first]
