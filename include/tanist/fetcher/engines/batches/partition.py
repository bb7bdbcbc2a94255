"""One partition of this engine: its logs, its pipeline and its report."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.appending import CopiedRecord, Halt, Pipeline, truncated
from tanist.domain.compaction import CaughtUp, Holes
from tanist.domain.copying import Append
from tanist.domain.errors import CompactionHole
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.small_batches import Merging
from tanist.fetcher.assignment import Report
from tanist.fetcher.source_ends import is_silence
from tanist.fetcher.totals import CopiedTotals
from tanist.kafka.protocol.frames import FetchPosition, ProduceBatch
from tanist.kafka.protocol.refilling import DeletedKeys

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.appending import Sent
    from tanist.domain.copying import Step
    from tanist.domain.errors import TanistError
    from tanist.domain.gap_markers import MarkerEpoch
    from tanist.domain.names import MirrorPartition, SourcePartition
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.engines.engine import Trouble
    from tanist.kafka.protocol.batch import BatchHeader

READ_AGAIN_SECONDS: Final = 0.2
LONGEST_READ_AGAIN_SECONDS: Final = 2.0
"""Doubled from one to the other after each error in a row: the broker answers at once about a partition with one."""


@dataclass(slots=True)
class SourceView:
    """What was observed of the partition at the source; None: nothing yet. Set by reading.

    `observed_at`: when the source answered, never later than that. `silent_since`: when a request was first found to be
    in vain since then; None: none was.
    """

    log_start: SourceOffset = SourceOffset(0)  # noqa: RUF009
    high_watermark: SourceOffset | None = None
    last_stable: SourceOffset | None = None
    log_end: SourceOffset | None = None
    """The true end of the leader's log, as it was last told."""
    asked_end: int = -1
    """`end`, before the leader was last asked for it."""
    observed_at: EpochMs | None = None
    silent_since: EpochMs | None = None
    error: TanistError | None = None
    """Why the source cannot be read; the destination is not affected."""
    failing_since: float | None = None
    read_again_at: float = 0.0
    failures: int = 0
    """In a row."""

    def served(self, at: EpochMs, high_watermark: int, last_stable: int, log_start: int) -> None:
        """The source has answered, at this time or later."""
        self.still(at)
        self.high_watermark, self.last_stable = SourceOffset(high_watermark), SourceOffset(last_stable)
        self.log_start = SourceOffset(log_start)

    def still(self, at: EpochMs) -> None:
        """The source has answered, at this time or later, that nothing has changed."""
        self.observed_at, self.silent_since = at, None
        self.error = self.failing_since = None
        self.failures = 0

    @property
    def end(self) -> int:
        """The largest end that is known."""
        return max(self.high_watermark or 0, self.log_end or 0)

    def refused(self, why: TanistError, now: float, epoch: EpochMs) -> None:
        """The source has not served it. `now`: monotonic seconds; `epoch`: the same, ms since 1970."""
        self.error = why
        if is_silence(why) and self.silent_since is None:
            self.silent_since = epoch
        self.failing_since = now if self.failing_since is None else self.failing_since
        self.read_again_at = now + min(LONGEST_READ_AGAIN_SECONDS, READ_AGAIN_SECONDS * 2.0 ** min(self.failures, 10))
        self.failures = 0 if is_silence(why) else self.failures + 1


@dataclass(slots=True)
class Tombstones:
    """Tombstones of the source that may have been removed before they were copied. Set by reading and recovery."""

    caught_up: CaughtUp
    hole: SourceOffset | None = None
    """The first hole that was read too late; both logs are to be compared before anything behind it is copied."""
    settled_at: EpochMs | None = None
    """When they were compared, or it was stored that tombstones may be missing: as good as caught up then."""
    deleted: DeletedKeys = DeletedKeys()  # noqa: RUF009  # a tuple
    """Keys that were deleted at the source, and whose tombstones go to the next holes."""


@dataclass(slots=True)
class StartFill:
    """A fill up to a log start: the destination ends at `end`, and must begin at `to` before anything is appended."""

    to: SourceOffset
    end: DestinationOffset


@dataclass(slots=True)
class BatchPartition:
    """Owned by the engine. `pipeline` is replaced at each recovery; the last one has the progress."""

    assigned: Assigned
    markers: MarkerEpoch
    pipeline: Pipeline[BatchHeader, memoryview] = field(default_factory=Pipeline.not_begun)
    start_fill: StartFill | None = None
    topic_id: UUID | None = None
    """The id of the destination topic; nothing is appended to a re-created topic of that name."""
    log_start: DestinationOffset = DestinationOffset(0)  # noqa: RUF009
    enter_at: SourceOffset = SourceOffset(0)  # noqa: RUF009
    """The source's log start when both logs were read, if it is inside the batch at the pipeline's position."""
    source: SourceView = field(default_factory=SourceView)
    merging: Merging = field(default_factory=Merging)
    sparse: bool = False
    """A hole was found although the topic is not compacted (any more)."""
    keyed: bool = False
    """The destination has refused a record without a key: such ones are left out, as the source's cleaner does."""
    one_by_one: bool = False
    """Its last batch was appended alone: brokers may have forgotten the producer id of records so old."""
    news_at: float = 0.0
    """When the source last had records of it, or it was recovered, monotonic seconds."""
    resting_since: float | None = None
    """Since when, monotonic seconds, nothing follows offsets of the source that hold no record."""
    last_epoch: int = -1
    """The source's leader epoch of the batch before the pipeline's position; -1: not known."""
    note: str = ""
    tombstones: Tombstones = field(init=False)
    there: SourcePartition = field(init=False)
    """What it is copied from."""
    last_mirrored_epoch: int = -1
    copied_record: CopiedRecord | None = None
    """The last record that landed, or what the worker before has stored of it."""
    records: int = 0
    bytes: int = 0
    totals: CopiedTotals = field(default_factory=CopiedTotals)
    """Of its topic in this thread, for longer than it."""
    complete_at: EpochMs | None = None
    """When the copy last had all that readers of committed records see at the source; None: never in this thread."""
    waiting_since: EpochMs | None = None
    """The timestamp of the first batch that was read and has not landed, as it was last seen; None: none was."""

    def __post_init__(self) -> None:
        self.tombstones = Tombstones(CaughtUp(self.assigned.caught_up_at))
        self.there = self.assigned.at_source

    @property
    def at(self) -> MirrorPartition:
        return self.assigned.partition

    @property
    def halted(self) -> Halt | None:
        return self.pipeline.halted

    @property
    def in_flight(self) -> bool:
        return bool(self.pipeline.in_flight)

    @property
    def quiet(self) -> bool:
        return self.pipeline.quiet

    @property
    def idle(self) -> bool:
        """Whether the partition is being copied and has nothing to copy."""
        return self.pipeline.halted is None and self.pipeline.quiet

    @property
    def holes(self) -> Holes:
        """What is done at offsets without a record."""
        return self.assigned.holes if self.assigned.compacted or self.sparse else Holes.REFUSE

    def found_hole(self) -> bool:
        """A hole was refused. Whether the partition may be copied with holes from now on."""
        refused, self.sparse = self.holes, True
        return self.holes is not refused

    @property
    def fetch_from(self) -> SourceOffset:
        return max(self.pipeline.position, self.enter_at)

    def position(self, max_bytes: int) -> FetchPosition:
        """Where to read on, of the topic and the history that were read so far."""
        epoch = self.last_epoch if self.fetch_from == self.pipeline.position else -1
        return FetchPosition(
            self.there.topic, self.there.partition, self.fetch_from, max_bytes, epoch, self.assigned.source_topic_id
        )

    def reads_too_late(self, now: EpochMs) -> bool:
        """Whether tombstones may be gone from what is read `now`, and nothing has been done about it."""
        kept, lost = self.assigned.tombstones_kept_ms, self.tombstones
        settled = lost.settled_at is not None and now - lost.settled_at < kept
        return self.assigned.compacted and not settled and lost.caught_up.too_late(now, kept)

    def compared(self, asked_at: EpochMs) -> None:
        """How far is the copy? It stays behind until no tombstone is missing.

        `asked_at`: when the last answer of the source was asked for. An answer may wait in the socket of a frozen
        process for hours.
        """
        copied, stable, lost = self.pipeline.landed_until, self.source.last_stable, self.tombstones
        if copied is not None and stable is not None and not lost.deleted.keys:
            lost.caught_up = lost.caught_up.seen(copied, stable, asked_at)
            self.complete_at = asked_at if copied >= stable else self.complete_at

    def keep_steps(self) -> None:
        """Its steps wait for the destination: copy their batches from the buffer, which the next answer overwrites."""
        self.pipeline.steps = deque(map(_kept, self.pipeline.steps))

    def diverged(self, end: SourceOffset, now: float) -> None:
        """The source's log has another history from `end` on than what was read."""
        self.halt(truncated(self.pipeline.sent_until, self.last_epoch, end), now)

    def assign(self, assigned: Assigned) -> None:
        before, self.assigned = self.holes, assigned
        if self.holes is not before:
            self.pipeline.halt(Halt(None, 0.0))  # its position means another thing from now on
        self.markers.claimed(assigned.claim_epoch)

    def halt(self, why: TanistError | None, now: float, suspect_from: DestinationOffset | None = None) -> None:
        """After any unexpected answer both logs are read again. `now`: monotonic seconds."""
        if isinstance(why, CompactionHole) and self.found_hole():
            why = None
        self.pipeline.halt(Halt(why, now, suspect_from))

    def to_append(self, batch: memoryview) -> ProduceBatch:
        """The produce entry of `batch` for this topic id."""
        return ProduceBatch(self.at.topic, self.at.partition, batch, self.topic_id)

    def counted(self, header: BatchHeader, now: EpochMs) -> None:
        """A batch is acknowledged. The time of its newest record counts for all of it."""
        self.records += header.record_count
        self.bytes += header.size
        self.totals.copied(header.record_count, header.size, now - header.max_timestamp)

    def landed(self, sent: Sent[BatchHeader], now: EpochMs) -> None:
        """`sent` was acknowledged where it was expected. Its records have the times that they have at the source."""
        self.pipeline.landed(sent)
        header = sent.header
        self.counted(header, now)
        self.last_mirrored_epoch = max(self.last_mirrored_epoch, header.leader_epoch)
        if header.leader_epoch >= 0:
            self.copied_record = CopiedRecord(sent.until, header.leader_epoch)

    @property
    def first_waiting(self) -> BatchHeader | None:
        """The first batch that was read and has not landed."""
        return self.pipeline.first_waiting

    def _uncopied_at(self) -> EpochMs | None:
        """As `Report.uncopied_at`.

        A record has the time of its batch, as its producer says, but was not there when the copy was complete.
        """
        copied, stable = self.pipeline.landed_until, self.source.last_stable
        if copied is None or stable is None or copied >= stable:
            self.waiting_since = None
            return None
        first = self.first_waiting
        if first is not None and first.base_timestamp >= 0:
            self.waiting_since = EpochMs(first.base_timestamp)
        return max((each for each in (self.waiting_since, self.complete_at) if each is not None), default=None)

    def report(self, trouble: Trouble) -> Report:
        """What others may know of it, now."""
        source, pipeline = self.source, self.pipeline
        return Report(
            finding=trouble.finding,
            error=trouble.error or source.error,
            failing_since=trouble.failing_since if trouble.error else source.failing_since,
            note=self.note,
            position=pipeline.landed_until,
            end=pipeline.landed_end,
            source_high_watermark=source.high_watermark,
            source_last_stable=source.last_stable,
            source_log_end=source.log_end,
            source_log_start=None if source.high_watermark is None else source.log_start,
            topic_id=self.topic_id,
            observed_at=source.observed_at,
            silent_since=source.silent_since,
            caught_up_at=self.tombstones.caught_up.at,
            uncopied_at=self._uncopied_at(),
            last_mirrored_epoch=self.last_mirrored_epoch,
            record_until=self.copied_record.until if self.copied_record else None,
            record_epoch=self.copied_record.epoch if self.copied_record else None,
            records=self.records,
            bytes=self.bytes,
        )


def _kept(step: Step[BatchHeader, memoryview]) -> Step[BatchHeader, memoryview]:
    """The same step, with memory of its own."""
    if not isinstance(step, Append) or len(step.payload) == memoryview(step.payload.obj).nbytes:
        return step
    return replace(step, payload=memoryview(bytearray(step.payload)))
