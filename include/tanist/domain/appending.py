"""When the next batch of a partition may be sent, and what the answer to one means. No I/O, no clock.

A `Pipeline` leads from one resume point to the first answer that was not expected. Then it is halted for good: both
logs are read again, and another pipeline begins. The engine acts on `next_move`; so does the model in the tests.
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
    RecordListTooLarge,
    UnsupportedCompression,
)
from tanist.domain.copying import Append, Batch, Fill, Refuse, Step, markers_to_write
from tanist.domain.errors import CouldNotTell, MirrorProducerFenced, RecordRefused, RecordTooLarge, TanistError
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, after
from tanist.domain.offset_map import OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.recovery import ResumePoint

DEPTH: Final = 4
"""Batches of a partition in flight; the broker recognises a producer's last five (ProducerStateEntry)."""
FORGETS_EARLY_MS: Final = 60_000
"""The broker's clock and ours may differ by as much."""


class Misplaced(CouldNotTell):
    """An append was acknowledged at another offset than it was meant for."""

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

    `suspect_from`: from this destination offset on there may be something that this mirror did not write.
    """

    why: TanistError | None
    at: float
    suspect_from: DestinationOffset | None = None


class Move(Enum):
    """What is to be done about the first step of a pipeline."""

    APPEND = auto()
    APPEND_UNDER_LEASE = auto()
    """The broker may have forgotten our producer id: only the one worker that holds the lease may send."""
    FILL_GAP = auto()
    """Gap markers up to `gap_until`."""
    EXTEND_MAP = auto()
    """The offset map must say where the next batch will land before it is sent: write `missing_range`."""
    FAIL = auto()
    """The step is a Refuse: halt with its error."""
    WAIT = auto()
    """For the answer to what is in flight."""


@dataclass(slots=True)
class Pipeline(Generic[H, Payload]):
    """What one partition has read, what it has sent, and what of that has landed, since it resumed.

    `position`: the source is read up to here, the end of the last of `steps`. `end`, `sequence`: the destination ends
    here, and the producer's next sequence number is this, once all that is in flight has landed.
    """

    position: SourceOffset
    end: DestinationOffset
    sequence: int
    offsets: OffsetMap
    last_timestamp: EpochMs | None
    """Of the last batch of our data producer id, ms; None: there is none that a broker could remember."""
    landed_until: SourceOffset | None
    landed_end: DestinationOffset | None
    """Everything before `landed_until` is committed at the destination, and lies before `landed_end`."""
    steps: deque[Step[H, Payload]] = field(default_factory=deque)
    in_flight: deque[Sent[H]] = field(default_factory=deque)
    acknowledged: bool = False
    """Whether any append has been: the first one is alone in flight until then.

    A broker that does not know the producer id takes a batch of any sequence, so it would take the second one although
    it has refused the first.
    """
    map_checked: bool = False
    """Whether the map is known to say where the next append lands; unknown after a recovery and after a gap."""
    halted: Halt | None = None

    @classmethod
    def resume(cls, at: ResumePoint, offsets: OffsetMap) -> Pipeline[H, Payload]:
        """A pipeline that begins at `at`; `offsets`: the map that this was decided by, with its new ranges."""
        return cls(at.position, at.end, at.sequence, offsets, at.last_timestamp, at.position, at.end)

    @classmethod
    def not_begun(cls) -> Pipeline[H, Payload]:
        """What a partition has before its first recovery."""
        start = SourceOffset(0)
        return cls(start, DestinationOffset(0), 0, OffsetMap(), None, None, None, halted=Halt(None, 0.0))

    @property
    def quiet(self) -> bool:
        """Nothing to send and nothing in flight."""
        return not self.steps and not self.in_flight

    @property
    def gap_until(self) -> SourceOffset:
        """Where the gap ends that lies before the next record: that of the first step, or one that was lost."""
        step = self.steps[0]
        return step.until if isinstance(step, Fill) else step.start if isinstance(step, Append) else self.position

    @property
    def gap_markers(self) -> int:
        """How many markers are missing up to `gap_until`."""
        return markers_to_write(self.gap_until, self.end)

    @property
    def missing_range(self) -> OffsetRange:
        """What the map must say before the first step, an Append, may be sent."""
        step = self.steps[0]
        assert isinstance(step, Append)  # noqa: S101  # the caller's contract: after EXTEND_MAP
        return OffsetRange(step.start, self.end)

    def take(self, steps: Iterable[Step[H, Payload]]) -> bool:
        """Add `steps`, which begin at `position`; whether there were any."""
        before = len(self.steps)
        self.steps.extend(steps)
        if len(self.steps) == before:
            return False
        if not isinstance(last := self.steps[-1], Refuse):
            self.position = last.until
        return True

    def map_extended(self, offsets: OffsetMap) -> None:
        """`missing_range` is on record; `offsets`: the map that has it."""
        self.offsets, self.map_checked = offsets, True

    def gap_filled(self) -> None:
        """Every marker up to `gap_until` is committed and counted into `end`."""
        self.map_checked = False
        self.landed_until, self.landed_end = self.gap_until, self.end
        if isinstance(self.steps[0], Fill):
            self.steps.popleft()

    def sent(self) -> Sent[H]:
        """The first step, an Append, is on its way, as sequence number `sequence` as it was before this call."""
        step = self.steps.popleft()
        assert isinstance(step, Append)  # noqa: S101  # the caller's contract: after APPEND
        header = step.header
        sent = Sent(self.end, header)
        self.in_flight.append(sent)
        self.map_checked = True
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
        """End here. What was read is void; what is in flight still gets its answer, which changes nothing any more."""
        self.steps.clear()
        self.halted = self.halted or halt


def next_move(pipeline: Pipeline[H, Payload], oldest: int, depth: int = DEPTH) -> Move:
    """What is to be done about the first step of `pipeline`, which must have one.

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
    if not pipeline.map_checked:
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
    """What must go on record at once if `sent` was acknowledged at `base`; None: nothing.

    Below the expected offset it is a duplicate, answered with the offset of the original. Above, somebody else's
    offsets are in between: who dies now leaves the next worker a log that the map does not explain.
    """
    if base > sent.expected and pipeline.offsets.locate(sent.start) != base:
        return OffsetRange(sent.start, base)
    return None


def translate_refusal(why: TanistError) -> TanistError:
    """What a refused append means for its partition: some refusals never change by themselves."""
    if isinstance(why, MessageTooLarge | RecordListTooLarge):
        return RecordTooLarge(why.reason)
    if isinstance(why, InvalidRecord | InvalidTimestamp | UnsupportedCompression):
        return RecordRefused(why.reason)
    if isinstance(why, InvalidProducerEpoch):
        return MirrorProducerFenced(why.reason)
    return why
