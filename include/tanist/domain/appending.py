"""When the next batch of a partition may be sent, and what the answer to one means. No I/O, no clock.

A `Pipeline` begins at a resume point and ends at the first unexpected answer. Then it is halted for good: both logs
are read again, and a new pipeline begins. The engine acts on `next_move`; so does the model in the tests.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from tanist.domain.broker_errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OffsetMetadataTooLarge,
    RecordListTooLarge,
    UnsupportedCompression,
)
from tanist.domain.copying import Append, Batch, Fill, Refuse, Step, markers_to_write
from tanist.domain.errors import (
    CouldNotTell,
    MirrorProducerFenced,
    PositionTooLarge,
    RecordRefused,
    RecordTooLarge,
    SourceTruncated,
    TanistError,
)
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, after
from tanist.domain.offset_map import OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.recovery import ResumePoint

DEPTH: Final = 4
"""Batches of a partition in flight; the broker recognises a producer's last five (ProducerStateEntry)."""
FORGETS_EARLY_MS: Final = 60_000
"""The largest tolerated difference between the broker's clock and ours."""


class Misplaced(CouldNotTell):
    """An append was acknowledged at another offset than the expected one."""

    name = "MISPLACED"
    operator_action = "none: the offset shift is recorded and both logs are read again"


class SendableBatch(Batch, Protocol):
    """The header of a batch that is appended."""

    @property
    def record_count(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


H = TypeVar("H", bound=SendableBatch)
Payload = TypeVar("Payload")


class Sent(NamedTuple, Generic[H]):
    """A batch in flight, and the destination offset that it must be acknowledged at."""

    expected: DestinationOffset
    header: H

    @property
    def start(self) -> SourceOffset:
        return SourceOffset(self.header.base_offset)

    @property
    def until(self) -> SourceOffset:
        return SourceOffset(self.header.next_offset)


class Halt(NamedTuple):
    """Why a pipeline ended. `why` None: nothing failed, both logs only have to be read again. `at`: monotonic seconds.

    `suspect_from`: from this destination offset on there may be records that this mirror did not write.
    """

    why: TanistError | None
    at: float
    suspect_from: DestinationOffset | None = None


class Move(Enum):
    """The next action for the first step of a pipeline."""

    APPEND = auto()
    APPEND_UNDER_LEASE = auto()
    """The broker may have forgotten our producer id: only the worker that holds the lease may send."""
    FILL_GAP = auto()
    """Gap markers up to `gap_until`."""
    EXTEND_MAP = auto()
    """The offset map must contain the range of the next batch before it is sent: write `missing_range`."""
    FAIL = auto()
    """The step is a Refuse: halt with its error."""
    WAIT = auto()
    """Wait for answers to batches in flight."""


def truncated(sent_until: SourceOffset, last_epoch: int, end: SourceOffset) -> SourceTruncated | None:
    """What it means that the source's log of leader epoch `last_epoch`, or of an earlier one, ends at `end` now.

    It was read further (KIP-101: only an unclean leader election, a lost disk or a power cut takes committed records).
    None: nothing of what is lost was copied, so both logs only have to be read again.
    """
    if end >= sent_until:
        return None
    return later_history(end, sent_until, last_epoch + 1)


class CopiedRecord(NamedTuple):
    """A record of the source's leader epoch `epoch` was copied that ends at `until`, or at a later offset."""

    until: SourceOffset
    epoch: int

    def lost(self, position: SourceOffset, epoch_end: int) -> SourceTruncated | None:
        """What it means that `epoch` ends at `epoch_end` in the source's log (-1: unknown there). None: nothing.

        `position`: where copying is to go on. Behind it nothing of the record is in the copy (any more).
        """
        if not 0 <= epoch_end < self.until <= position:
            return None
        return later_history(SourceOffset(epoch_end), position, self.epoch + 1)


def later_history(start: SourceOffset, until: SourceOffset, epoch: int) -> SourceTruncated:
    """The source lost its offsets from `start` up to `until`; its later records begin with leader epoch `epoch`."""
    return SourceTruncated(
        f"the source lost its offsets {start} to {until - 1} after they were copied (an unclean leader election, or a "
        f"power cut); other records that it wrote there since leader epoch {epoch} are not copied"
    )


@dataclass(slots=True)
class Pipeline(Generic[H, Payload]):
    """What one partition has read, sent and appended since it resumed.

    `position`: the source is read up to here, the end of the last of `steps`. `end`, `sequence`: the end of the
    destination and the producer's next sequence number, once everything in flight is appended.
    """

    position: SourceOffset
    end: DestinationOffset
    sequence: int
    offsets: OffsetMap
    last_timestamp: EpochMs | None
    """Timestamp of the last batch of our data producer id, ms; None: there is none that a broker could remember."""
    landed_until: SourceOffset | None
    landed_end: DestinationOffset | None
    """Everything before `landed_until` is committed at the destination, and lies before `landed_end`."""
    steps: deque[Step[H, Payload]] = field(default_factory=deque)
    in_flight: deque[Sent[H]] = field(default_factory=deque)
    acknowledged: bool = False
    """Whether any append was acknowledged; until then only one is in flight.

    A broker that does not know the producer id accepts a batch with any sequence, so it would accept the second batch
    although it has refused the first.
    """
    mapped_shift: int | None = None
    """By how much the map is known to shift the next append; None: unknown, after a recovery and after a gap."""
    halted: Halt | None = None

    @classmethod
    def resume(cls, at: ResumePoint, offsets: OffsetMap = OffsetMap()) -> Pipeline[H, Payload]:  # noqa: B008  # frozen
        """A pipeline that begins at `at`; `offsets`: the map used for that decision, with its new ranges.

        Where the map is written after the fact, as that of mapped offsets, none is needed here.
        """
        return cls(at.position, at.end, at.sequence, offsets, at.last_timestamp, at.position, at.end)

    @classmethod
    def not_begun(cls) -> Pipeline[H, Payload]:
        """The pipeline of a partition before its first recovery."""
        start = SourceOffset(0)
        return cls(start, DestinationOffset(0), 0, OffsetMap(), None, None, None, halted=Halt(None, 0.0))

    @property
    def quiet(self) -> bool:
        """Nothing to send and nothing in flight."""
        return not self.steps and not self.in_flight

    @property
    def first_waiting(self) -> H | None:
        """The first batch that was read and is not acknowledged; None: there is none."""
        if self.in_flight:
            return self.in_flight[0].header
        return next((step.header for step in self.steps if isinstance(step, Append)), None)

    @property
    def sent_until(self) -> SourceOffset:
        """The source offset up to which anything may have been appended."""
        first = self.steps[0] if self.steps else None
        return self.position if first is None or isinstance(first, Refuse) else first.start

    @property
    def planned_end(self) -> DestinationOffset:
        """The end of the destination once all of `steps` are done, too."""
        end = self.end
        for step in self.steps:
            if isinstance(step, Append):
                end = DestinationOffset(end + step.until - step.start)
            elif isinstance(step, Fill):
                end = DestinationOffset(max(end, step.until))
        return end

    @property
    def gap_until(self) -> SourceOffset:
        """The end of the gap before the next record: that of the first step, or of a gap whose markers were lost."""
        step = self.steps[0]
        return step.until if isinstance(step, Fill) else step.start if isinstance(step, Append) else self.position

    @property
    def gap_markers(self) -> int:
        """How many markers are missing up to `gap_until`."""
        return markers_to_write(self.gap_until, self.end)

    @property
    def missing_range(self) -> OffsetRange:
        """The range that the map must contain before the first step, an Append, may be sent."""
        step = self.steps[0]
        assert isinstance(step, Append)  # noqa: S101  # the caller's contract: after EXTEND_MAP
        return OffsetRange(step.start, self.end)

    def take(self, steps: Iterable[Step[H, Payload]], until: SourceOffset | None = None) -> bool:
        """Add `steps`, which begin at `position`; whether anything was read.

        `until`: the source is read up to here. None: up to the end of the last step.
        """
        before, read_until = len(self.steps), self.position
        self.steps.extend(steps)
        if until is not None:
            self.position = until
        elif len(self.steps) > before and not isinstance(last := self.steps[-1], Refuse):
            self.position = last.until
        return len(self.steps) > before or self.position > read_until

    def map_extended(self, offsets: OffsetMap) -> None:
        """`missing_range` was recorded; `offsets`: the map that contains it."""
        self.offsets, self.mapped_shift = offsets, self.end - self.missing_range.source

    def gap_filled(self) -> None:
        """Every marker up to `gap_until` is committed and counted into `end`."""
        self.mapped_shift = None
        self.landed_until, self.landed_end = self.gap_until, self.end
        if isinstance(self.steps[0], Fill):
            self.steps.popleft()

    def rested(self) -> None:
        """Nothing follows `position` for now, and the destination has all offsets below it: markers, if no records."""
        self.landed_until, self.landed_end = self.position, self.end

    def sent(self) -> Sent[H]:
        """Record that the first step, an Append, was sent with the value of `sequence` before this call."""
        step = self.steps.popleft()
        assert isinstance(step, Append)  # noqa: S101  # the caller's contract: after APPEND
        header = step.header
        sent = Sent(self.end, header)
        self.in_flight.append(sent)
        self.mapped_shift = self.end - step.start
        self.last_timestamp = EpochMs(header.max_timestamp)
        self.sequence = after(self.sequence, header.record_count)
        self.end = DestinationOffset(self.end + header.record_count)
        return sent

    def landed(self, sent: Sent[H]) -> None:
        """`sent` was acknowledged where it was expected."""
        self.acknowledged = True
        self.landed_until = sent.until
        self.landed_end = DestinationOffset(sent.expected + sent.header.record_count)

    def halt(self, halt: Halt) -> None:
        """End the pipeline. Batches read are dropped; answers to batches in flight no longer change anything."""
        self.steps.clear()
        self.halted = self.halted or halt


def next_move(pipeline: Pipeline[H, Payload], oldest: int, depth: int = DEPTH) -> Move:
    """The next action for the first step of `pipeline`, which must have one.

    `oldest`: ms since 1970; of a batch before that the brokers may have forgotten the producer id (`remembered_since`).
    Then their idempotence check compares nothing, so what it otherwise guarantees has to come from one owner and one
    batch at a time. `depth`: batches in flight at most.
    """
    step = pipeline.steps[0]
    if isinstance(step, Append):
        return _before(step, pipeline, oldest, depth)
    if pipeline.in_flight:
        return Move.WAIT
    return Move.FILL_GAP if isinstance(step, Fill) else Move.FAIL


def _before(step: Append[H, Payload], pipeline: Pipeline[H, Payload], oldest: int, depth: int) -> Move:
    last, in_flight = pipeline.last_timestamp, len(pipeline.in_flight)
    forgotten = step.header.max_timestamp < oldest or (last is not None and last < oldest)
    if in_flight >= (depth if pipeline.acknowledged and not forgotten else 1):
        return Move.WAIT
    if pipeline.mapped_shift != pipeline.end - step.start:
        if in_flight:
            return Move.WAIT
        if pipeline.end < step.start:
            return Move.FILL_GAP  # markers were lost with a leader
        if pipeline.offsets.locate(step.start) != pipeline.end:
            return Move.EXTEND_MAP
    return Move.APPEND_UNDER_LEASE if forgotten else Move.APPEND


def remembered_since(now: EpochMs, remembered_ms: int) -> int:
    """Brokers still know the producer id of batches with this timestamp or a later one, ms since 1970.

    They forget it `producer.id.expiration.ms` after the timestamp of its last batch, not after its arrival.
    """
    return now - remembered_ms + FORGETS_EARLY_MS


def shifted(pipeline: Pipeline[H, Payload], sent: Sent[H], base: DestinationOffset) -> OffsetRange | None:
    """The range to record at once if `sent` was acknowledged at `base`; None: nothing.

    Below the expected offset it is a duplicate, answered with the offset of the original. Above it, foreign offsets are
    in between: if this worker died now, the map would not explain the log to the next worker.
    """
    if base > sent.expected and pipeline.offsets.locate(sent.start) != base:
        return OffsetRange(sent.start, base)
    return None


def translate_refusal(why: TanistError) -> TanistError:
    """The error of a partition whose append, or position behind it, was refused: some refusals are permanent."""
    if isinstance(why, MessageTooLarge | RecordListTooLarge):
        return RecordTooLarge(f"{why.reason}; max.message.bytes of the destination topic is smaller")
    if isinstance(why, InvalidRecord | InvalidTimestamp | UnsupportedCompression):
        return RecordRefused(why.reason)
    if isinstance(why, OffsetMetadataTooLarge):
        return PositionTooLarge(why.reason)
    if isinstance(why, InvalidProducerEpoch):
        return MirrorProducerFenced(why.reason)
    return why
