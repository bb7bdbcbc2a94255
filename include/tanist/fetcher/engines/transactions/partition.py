"""One partition of this engine: its source, its pipeline, and what its open transaction holds of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.appending import CopiedRecord
from tanist.domain.fake_group import NO_PRODUCER, CopiedPosition
from tanist.domain.mapped_runs import encoded, extended, moved, without_records
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, topic_id_text
from tanist.domain.offset_map import OffsetRange
from tanist.fetcher.engines.batches.partition import BatchPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import ProducerId
    from tanist.kafka.protocol.batch import BatchHeader

FEW: Final = 20
"""So many ranges are not looked at: they are shorter."""
PUBLISHED_AT_BYTES: Final = 256
"""Ranges ride with every commit of the position, so they are published before they are many."""


@dataclass(slots=True)
class Opened:
    """What an open transaction holds of a partition; at least once: what was appended since the last commit.

    `end`: behind its records; `begun_at`: monotonic seconds.

    `misplaced`: something lies at another offset than where the mirror partition ended.
    """

    begun_at: float
    position: SourceOffset
    end: DestinationOffset
    runs: tuple[OffsetRange, ...]
    appended: list[BatchHeader] = field(default_factory=list)
    misplaced: bool = False


@dataclass(slots=True)
class TransactionPartition(BatchPartition):
    """Owned by the engine. `committed`: what the last transaction committed, or recovery has read."""

    committed: CopiedPosition | None = None
    committed_at: float = 0.0
    """Monotonic seconds."""
    opened: Opened | None = None
    alone_from: SourceOffset | None = None
    """Of a batch that was refused for good behind others in its transaction: they are committed without it first."""

    def ends_before(self, header: BatchHeader) -> bool:
        """Whether the open transaction, which holds something of it, is committed before this batch."""
        return self.alone_from is not None and header.next_offset > self.alone_from

    @property
    def holds_batches(self) -> bool:
        """Whether the open transaction has a batch of it."""
        return self.opened is not None and bool(self.opened.appended)

    @property
    def in_flight(self) -> bool:
        return self.opened is not None

    @property
    def quiet(self) -> bool:
        return self.opened is None and not self.pipeline.steps

    @property
    def source_topic_id(self) -> str:
        """As a proof has it; empty: brokers of the source are older than 2.8."""
        topic = self.assigned.source_topic_id
        return "" if topic is None else topic_id_text(topic)

    @property
    def next_position(self) -> SourceOffset:
        """What of the source comes next, if all that was taken so far is committed."""
        assert self.committed is not None  # noqa: S101  # recovery has read or chosen it
        return self.committed.position if self.opened is None else self.opened.position

    @property
    def riding(self) -> Sequence[OffsetRange]:
        """The ranges that ride with the next position."""
        if self.opened is not None:
            return self.opened.runs
        return self.committed.runs if self.committed is not None else ()

    @property
    def first_waiting(self) -> BatchHeader | None:
        """The first batch that was read and is not committed."""
        return self.opened.appended[0] if self.opened and self.opened.appended else self.pipeline.first_waiting

    def open(self, now: float) -> Opened:
        """What the open transaction holds of it; from now on it holds something."""
        if self.opened is None:
            assert self.committed is not None  # noqa: S101  # recovery has read or chosen it
            last = self.committed
            goes_on = OffsetRange(last.position, last.end)
            runs = last.runs if last.runs[-1:] == (goes_on,) else (*last.runs, goes_on)
            self.opened = Opened(now, last.position, self.pipeline.end, runs)
        return self.opened

    def appended(self, header: BatchHeader, base: DestinationOffset, now: float) -> None:
        """A batch of the source was appended at `base`, in the open transaction."""
        opened = self.open(now)
        opened.runs = extended(opened.runs, OffsetRange(SourceOffset(header.base_offset), base), header.record_count)
        opened.position = max(opened.position, SourceOffset(header.next_offset))
        opened.end = self.pipeline.end = DestinationOffset(base + header.record_count)
        opened.appended.append(header)

    def passed(self, until: SourceOffset, now: float) -> None:
        """The source has no record up to `until`."""
        self.open(now).position = until

    def to_commit(self, producer_id: ProducerId = NO_PRODUCER) -> CopiedPosition:
        """What the open transaction commits: where the copy goes on, behind its marker.

        `producer_id`: who appends to it outside of transactions, so that there is no marker. Where nothing was appended
        the end stays: behind it there may be first copies, the only ones until they are copied again.
        """
        opened, last, spec = self.opened, self.committed, self.assigned.spec
        assert opened is not None  # noqa: S101  # the caller's contract
        assert last is not None  # noqa: S101
        end = DestinationOffset(opened.end + (producer_id == NO_PRODUCER)) if opened.appended else last.end
        return CopiedPosition(
            position=opened.position,
            mirror_id=spec.id,
            source_topic_id=last.source_topic_id,
            end=end,
            count=last.count + 1,
            runs=moved(opened.runs, OffsetRange(opened.position, end)),
            size=last.size + sum(header.size for header in opened.appended),
            producer_id=producer_id,
        )

    def was_committed(self, position: CopiedPosition, now: float, epoch: EpochMs) -> None:
        """The transaction is decided. `now`: monotonic seconds, `epoch`: the same, ms since 1970."""
        opened, self.opened = self.opened, None
        assert opened is not None  # noqa: S101  # the caller's contract
        self.committed, self.committed_at = position, now
        if self.alone_from is not None and position.position > self.alone_from:
            self.alone_from = None
        if opened.appended:  # else it may have ended behind aborted records already
            self.pipeline.end = position.end
        self.pipeline.landed_until, self.pipeline.landed_end = position.position, position.end
        for header in opened.appended:
            self.counted(header, epoch)
            self.last_mirrored_epoch = max(self.last_mirrored_epoch, header.leader_epoch)
            if header.leader_epoch >= 0:
                self.copied_record = CopiedRecord(SourceOffset(header.next_offset), header.leader_epoch)

    @property
    def publishable(self) -> CopiedPosition | None:
        """The committed position if its ranges are to be published now; None: they may go on riding."""
        return self.committed if self.rides_more_than(PUBLISHED_AT_BYTES) else None

    def rides_more_than(self, size: int) -> bool:
        """Whether the ranges beside the committed position are longer than `size`, in characters."""
        runs = self.committed.runs if self.committed is not None else ()
        return len(runs) > FEW and len(encoded(runs)) > size

    def begin_at(self, position: SourceOffset, end: DestinationOffset, runs: tuple[OffsetRange, ...]) -> CopiedPosition:
        """A first position of this copy, which the next transaction commits."""
        return CopiedPosition(position, self.assigned.spec.id, self.source_topic_id, end, 0, runs)

    def were_published(self) -> None:
        """The committed ranges are published; the next commit repeats the last ones only, so that both continue."""
        if self.committed is not None:
            self.committed = replace(self.committed, runs=without_records(self.committed.runs), size=0)
