"""One partition on its way: where it reads, where it writes, what is in flight. Owned by its lane's thread."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.anchoring import Writers
from tanist.domain.errors import PartitionBroken, TanistError
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.states import Finding
from tanist.fetcher.assignment import Report
from tanist.protocol.frames import ProduceBatch

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.anchoring import Alignment, Anchor
    from tanist.domain.copying import Step
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.fetcher.assignment import Assigned
    from tanist.protocol.batch import BatchHeader

FIRST_BACK_OFF: Final = 0.05  # seconds; doubled after each failure in a row
LAST_BACK_OFF: Final = 5.0
READ_AGAIN_SECONDS: Final = 0.2


class Phase(Enum):
    RECOVER = auto()
    """Both logs must be read before anything is written."""
    ALIGN = auto()
    """The destination's log start is being brought to the source's."""
    COPY = auto()
    BROKEN = auto()
    """Failed alone; only a person gets it out of here."""


class Sent(NamedTuple):
    """A batch in flight: where it must land, and how far the source has been read once it has."""

    expected: DestinationOffset
    start: SourceOffset
    until: SourceOffset
    records: int
    size: int
    leader_epoch: int


@dataclass(slots=True)
class PartitionCopy:
    """`position` is read up to the last of `steps`, `end` written up to the last in flight; `recover` forgets both."""

    assigned: Assigned
    phase: Phase = Phase.RECOVER
    position: SourceOffset = SourceOffset(0)  # noqa: RUF009
    end: DestinationOffset = DestinationOffset(0)  # noqa: RUF009
    sequence: int = 0
    topic_id: UUID | None = None
    """Of the destination's topic that all this is about; nothing is appended to a later one of that name."""
    offsets: OffsetMap = field(default_factory=OffsetMap)
    align: Alignment | None = None
    steps: deque[Step[BatchHeader, memoryview]] = field(default_factory=deque)
    in_flight: deque[Sent] = field(default_factory=deque)
    alone: bool = True
    """The first append after a recovery is alone in flight until it is acknowledged."""
    map_unchecked: bool = True
    """After a recovery or a gap the map must agree before the next append."""
    filler_epoch: int = 0
    filler_spent: bool = False
    """A fill went unanswered, was refused or miscounted: its epoch must never be used again."""
    suspect_from: DestinationOffset | None = None
    after_old: bool = False
    """The last batch sent was so old that the broker may have forgotten our producer id."""
    enter_at: SourceOffset = SourceOffset(0)  # noqa: RUF009
    """The source's log start where that lies inside the batch at `position`."""
    source_log_start: SourceOffset = SourceOffset(0)  # noqa: RUF009
    copy_start: DestinationOffset = DestinationOffset(0)  # noqa: RUF009
    read_again_at: float = 0.0
    source_error: TanistError | None = None
    retry_at: float = 0.0
    failures: int = 0
    failing_since: float | None = None
    error: TanistError | None = None
    note: str = ""
    landed_until: SourceOffset | None = None
    landed_end: DestinationOffset | None = None
    last_mirrored_epoch: int = -1
    high_watermark: SourceOffset | None = None
    last_stable: SourceOffset | None = None
    observed_at: EpochMs | None = None
    records: int = 0
    bytes: int = 0

    @property
    def partition(self) -> TopicPartition:
        return self.assigned.partition

    @property
    def writers(self) -> Writers:
        spec = self.assigned.spec
        return Writers(spec.data_id, spec.filler_id, spec.start_id)

    @property
    def fetch_from(self) -> SourceOffset:
        return max(self.position, self.enter_at)

    @property
    def fetchable(self) -> bool:
        return self.phase is Phase.COPY and not self.assigned.draining

    @property
    def quiet(self) -> bool:
        return not self.steps and not self.in_flight

    def to_append(self, batch: memoryview) -> ProduceBatch:
        """`batch` on its way to this very copy."""
        return ProduceBatch(self.partition.topic, self.partition.partition, batch, self.topic_id)

    def go_on(self, found: Anchor, offsets: OffsetMap) -> None:
        """Copying goes on at `found`; `offsets` is the map that this was decided by, with its new runs."""
        self.position, self.end, self.sequence, self.align = found.position, found.end, found.sequence, found.align
        self.offsets = offsets
        self.phase = Phase.COPY if found.align is None else Phase.ALIGN
        self.alone = self.map_unchecked = True
        self.suspect_from = None
        if self.phase is Phase.COPY:
            self.reached(found.position, found.end)

    def recover(self, why: TanistError | None, now: float) -> None:
        """Forget all plans: after any unexpected answer both logs are read again. `now`: monotonic seconds."""
        self.steps.clear()
        if self.phase is Phase.BROKEN:
            return
        self.phase = Phase.BROKEN if isinstance(why, PartitionBroken) else Phase.RECOVER
        if why is not None:
            self.retry_at = now + min(LAST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(self.failures, 10))
            self.failures += 1
            self.failing_since = now if self.error is None else self.failing_since
            self.error = why

    def cannot_read(self, why: TanistError, now: float) -> None:
        """The source did not serve it; nothing is wrong with the copy. `now`: monotonic seconds."""
        self.source_error = why
        self.failing_since = now if self.failing_since is None else self.failing_since
        self.read_again_at = now + READ_AGAIN_SECONDS

    def was_read(self, now: EpochMs, high_watermark: int, last_stable: int, log_start: int) -> None:
        """The source served it."""
        self.observed_at = now
        self.high_watermark, self.last_stable = SourceOffset(high_watermark), SourceOffset(last_stable)
        self.source_log_start = SourceOffset(log_start)
        if self.source_error is not None:
            self.source_error, self.failing_since = None, None

    def landed(self, sent: Sent) -> None:
        """`sent` was acknowledged where it was expected."""
        self.alone = False
        self.records += sent.records
        self.bytes += sent.size
        self.last_mirrored_epoch = max(self.last_mirrored_epoch, sent.leader_epoch)
        self.reached(sent.until, DestinationOffset(sent.expected + sent.until - sent.start))

    def reached(self, until: SourceOffset, end: DestinationOffset) -> None:
        """Everything before `until` is committed at the destination, which ends at `end`."""
        self.landed_until, self.landed_end = until, end
        self.failures, self.failing_since, self.error = 0, None, None

    def report(self) -> Report:
        """What others may know of this copy, now."""
        finding = None
        if self.phase is Phase.BROKEN:
            finding = Finding.BROKEN
        elif self.assigned.draining and self.quiet:
            finding = Finding.QUIET
        elif self.phase is Phase.COPY and self.error is None:
            finding = Finding.ALIGNED
        return Report(
            finding=finding,
            error=self.error or self.source_error,
            failing_since=self.failing_since,
            note=self.note,
            position=self.landed_until,
            end=self.landed_end,
            source_high_watermark=self.high_watermark,
            source_last_stable=self.last_stable,
            source_log_start=None if self.high_watermark is None else self.source_log_start,
            topic_id=self.topic_id,
            observed_at=self.observed_at,
            last_mirrored_epoch=self.last_mirrored_epoch,
            records=self.records,
            bytes=self.bytes,
        )
