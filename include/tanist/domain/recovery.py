"""Recovery of one partition: where copying resumes, decided from both logs.

The destination's log is the only checkpoint. The next sequence follows our last committed data batch; the position is
the map's inverse of that batch's end, verified against that batch at the source. The end alone is not enough: behind
a surplus marker or a foreign record it would skip records. DescribeProducers would include uncommitted batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from tanist.domain.copying import Append, Batch, Fill, Refuse, Step
from tanist.domain.errors import CompactionHole, CouldNotTell, Diverged, ForeignWrite
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, after
from tanist.domain.offset_map import OffsetMap, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.writer_identity import MarkingWriter

FIRST_LOOK = 64
"""Offsets read back from the end at first; four times as many each time if that is not enough."""


class WrittenBatch(Batch, Protocol):
    """The header of a batch of the mirror partition."""

    @property
    def base_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


H = TypeVar("H", bound=WrittenBatch)
Payload = TypeVar("Payload")


class SourceStart(NamedTuple):
    """Of the source: its log start, and where the batch begins that holds it (at most the log start)."""

    log_start: SourceOffset
    first_batch: SourceOffset


class NotCommittedYet(CouldNotTell):
    name = "NOT_COMMITTED_YET"
    operator_action = "none: the log is read again as soon as the followers have caught up"


class SourceBehind(CouldNotTell):
    name = "SOURCE_BEHIND"
    operator_action = "none at first; if this persists, the source has lost records that were already copied"


class LogReader(Protocol[H, Payload]):
    """Both logs of one partition, read on demand."""

    def copy_ends(self) -> CopyEnds: ...

    def destination(self, start: DestinationOffset, until: DestinationOffset) -> Sequence[tuple[H, Payload]]:
        """All batches that reach into [start, until), control batches too, in order, wholly."""
        ...

    def offset_map(self) -> OffsetMap:
        """The map, read after the log was read."""
        ...

    def source(self, position: SourceOffset) -> Sequence[Step[H, Payload]] | None:
        """Some steps from `position` on (at least one); None if retention has deleted them.

        Raises:
            SourceBehind: the source ends before `position`.
        """
        ...

    def source_start(self) -> SourceStart: ...

    def next_sequence(self) -> int | None:
        """The sequence that the broker expects of our data id; None: the id is unknown. For logs without our data."""
        ...

    def same(self, copied: Payload, originals: Sequence[Payload], skipped: int) -> bool:
        """Whether `originals`, batches of the source that follow each other, hold records of `copied`, in its order.

        `skipped`: the first record of `copied` that is compared. More than one original: small batches, merged.
        """
        ...


@dataclass(frozen=True, slots=True)
class LogStartGap:
    """The destination's log must begin where the source's does, before anything is appended."""

    to: SourceOffset


class LostSpan(NamedTuple):
    """Source offsets from `start` up to, not including, `until` that were deleted before they were copied."""

    start: SourceOffset
    until: SourceOffset


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where copying resumes. `runs` are missing in the map and must be written before anything else.

    `lost`: what the source deleted before it was copied; None: nothing.
    """

    position: SourceOffset
    end: DestinationOffset
    sequence: int
    runs: tuple[OffsetRange, ...] = ()
    start_fill: LogStartGap | None = None
    last_timestamp: EpochMs | None = None
    """Timestamp of our last data batch in the log, ms, from which producer.id.expiration.ms counts. None: no batch."""
    lost: LostSpan | None = None


class CopyTail(NamedTuple, Generic[H, Payload]):
    """What was read of the mirror partition, from `start` to its end.

    `data`: the batches of our data producer id. `markers_from`: where the gap markers begin with which the log ends.
    """

    start: DestinationOffset
    data: tuple[tuple[H, Payload], ...]
    markers_from: DestinationOffset


def recover_position(
    evidence: LogReader[H, Payload], writer: MarkingWriter, suspect_from: DestinationOffset | None = None
) -> ResumePoint:
    """Decide where copying resumes.

    `suspect_from`: the offset expected for an append that landed elsewhere; everything from it on is checked, too.

    Raises:
        NotCommittedYet: the followers have not caught up; try again.
        ForeignWrite, Diverged: this partition cannot be copied.
        CompactionHole: a cleaner has been at work on the mirror topic, see `recover_compacted_position`.
        SourceBehind, CouldNotTell: the source did not return the batches needed; try again.
    """
    ends = committed_ends(evidence)
    tail = last_data(evidence, writer, ends, suspect_from)
    offsets = evidence.offset_map()
    look_below(evidence, writer, ends, tail, offsets)
    if not tail.data:
        return without_data(evidence, ends, offsets, tail.markers_from)
    header, payload = tail.data[-1]
    if not header.is_dense:  # its records do not tell how many sequences it took
        raise CompactionHole(f"the batch at destination offset {header.base_offset} lacks records")
    sequence = after(header.base_sequence, header.record_count)
    begun = offsets.origin(DestinationOffset(header.base_offset))
    runs: tuple[OffsetRange, ...] = ()
    position = SourceOffset(begun + header.next_offset - header.base_offset)
    if not _verified(evidence, begun, header, payload):
        position, runs = _walk_back(evidence, writer, ends, tail, offsets)
    last = EpochMs(header.max_timestamp)
    return above_log_start(evidence, ends, ResumePoint(position, ends.end, sequence, runs, last_timestamp=last))


def committed_ends(evidence: LogReader[H, Payload]) -> CopyEnds:
    """Log start and end of the mirror partition. Raises NotCommittedYet."""
    ends = evidence.copy_ends()
    if ends.high_watermark != ends.end:
        raise NotCommittedYet(f"the high watermark {ends.high_watermark} is below the end {ends.end}")
    return ends


def last_data(
    evidence: LogReader[H, Payload], writer: MarkingWriter, ends: CopyEnds, suspect_from: DestinationOffset | None
) -> CopyTail[H, Payload]:
    back = max(FIRST_LOOK, ends.end - suspect_from if suspect_from is not None else 0)
    while True:
        tail = _tail(evidence, writer, ends, back)
        if tail.data or tail.start == ends.start:
            return tail
        back *= 4


def tail_start(ends: CopyEnds, back: int) -> DestinationOffset:
    """Where the last `back` offsets of a copy begin: what is read of it first."""
    return DestinationOffset(max(ends.start, ends.end - back))


def _tail(evidence: LogReader[H, Payload], writer: MarkingWriter, ends: CopyEnds, back: int) -> CopyTail[H, Payload]:
    start = tail_start(ends, back)
    batches = _read_ours(evidence, writer, start, ends.end)
    data = tuple((h, p) for h, p in batches if writer.has_copied(h.producer_id, control=h.is_control))
    markers_from = ends.end
    for header, _ in reversed(batches):
        if not header.is_control or header.next_offset != markers_from:
            break
        markers_from = DestinationOffset(header.base_offset)
    return CopyTail(start, data, markers_from)


def look_below(
    evidence: LogReader[H, Payload],
    writer: MarkingWriter,
    ends: CopyEnds,
    tail: CopyTail[H, Payload],
    offsets: OffsetMap,
) -> None:
    """Check the offsets below `tail` that the last range skips: its writer may have died before it checked them."""
    if offsets.runs:
        last = offsets.runs[-1]
        start = max(ends.start, OffsetMap(offsets.runs[:-1]).locate(last.source))
        _read_ours(evidence, writer, DestinationOffset(start), min(last.destination, tail.start))


def _read_ours(
    evidence: LogReader[H, Payload], writer: MarkingWriter, start: DestinationOffset, until: DestinationOffset
) -> Sequence[tuple[H, Payload]]:
    """Batches of the mirror partition that reach into [start, until). Raises ForeignWrite for other producers."""
    batches = evidence.destination(start, until) if start < until else ()
    for header, _ in batches:
        _must_be_ours(header, writer)
    return batches


def _must_be_ours(header: WrittenBatch, writer: MarkingWriter) -> None:
    if not writer.may_have_written(header.producer_id, control=header.is_control):
        raise ForeignWrite(
            f"destination offsets {header.base_offset} to {header.next_offset - 1} were written by producer id "
            f"{header.producer_id}, not by this mirror"
        )


def _verified(evidence: LogReader[H, Payload], begun: SourceOffset, header: H, payload: Payload) -> bool:
    """Whether the source has, from `begun` on, the records of a batch of the copy, in one batch or in several."""
    until = SourceOffset(begun + header.next_offset - header.base_offset)
    try:
        found = _whole_batches(evidence, begun, until)
        if found is not None:
            return bool(found) and evidence.same(payload, found, 0)
        # The source no longer has its beginning: the map is the best witness left, where it fits what is there.
        first_batch = evidence.source_start().first_batch
        if begun == first_batch or until <= first_batch:
            return True
        if begun > first_batch:
            return False
        rest = _whole_batches(evidence, first_batch, until)
        return rest is None or (bool(rest) and evidence.same(payload, rest, first_batch - begun))
    except SourceBehind:
        return False  # behind a surplus that the map does not know, or the source is behind: pairing forward tells


def _whole_batches(
    evidence: LogReader[H, Payload], start: SourceOffset, until: SourceOffset
) -> tuple[Payload, ...] | None:
    """The committed batches of the source from `start` up to `until`; empty: they do not begin and end just there.

    None: retention has deleted `start`.
    """
    found: list[Payload] = []
    for step in _onwards(evidence, start):
        if not isinstance(step, Append) or step.start != start or step.until > until:
            return ()
        found.append(step.payload)
        start = step.until
        if start == until:
            return tuple(found)
    return () if found else None


def _onwards(evidence: LogReader[H, Payload], position: SourceOffset) -> Iterator[Step[H, Payload]]:
    """All steps from `position` on, up to a Refuse or to what retention has deleted."""
    while steps := evidence.source(position):
        for step in steps:
            yield step
            if isinstance(step, Refuse):
                return
            position = step.until


def _walk_back(
    evidence: LogReader[H, Payload],
    writer: MarkingWriter,
    ends: CopyEnds,
    tail: CopyTail[H, Payload],
    offsets: OffsetMap,
) -> tuple[SourceOffset, tuple[OffsetRange, ...]]:
    """The map lags behind the log: find the last batch that it explains, and pair forward from there."""
    while True:
        for i in range(len(tail.data) - 1, -1, -1):
            header, payload = tail.data[i]
            begun = offsets.origin(DestinationOffset(header.base_offset))
            if _verified(evidence, begun, header, payload):
                position = SourceOffset(begun + header.next_offset - header.base_offset)
                return _pair_forward(evidence, tail.data[i + 1 :], position, offsets)
        if tail.start == ends.start:
            break
        tail = _tail(evidence, writer, ends, 4 * (ends.end - tail.start))
    # The map may be wrong about all of the data, but below it there is nothing that could have shifted.
    below = DestinationOffset(min(ends.start, tail.data[0][0].base_offset))
    return _pair_forward(evidence, tail.data, offsets.origin(below), offsets)


def _pair_forward(
    evidence: LogReader[H, Payload], data: Sequence[tuple[H, Payload]], position: SourceOffset, offsets: OffsetMap
) -> tuple[SourceOffset, tuple[OffsetRange, ...]]:
    position = SourceOffset(max(position, evidence.source_start().first_batch))
    runs: list[OffsetRange] = []
    steps = _onwards(evidence, position)
    for header, payload in data:
        length = header.next_offset - header.base_offset
        start, position = _paired(evidence, steps, payload, length)
        if position - start != length:
            raise Diverged(f"source offset {start} and destination offset {header.base_offset} begin unequal batches")
        if offsets.locate(start) != header.base_offset:
            runs.append(OffsetRange(start, DestinationOffset(header.base_offset)))
            offsets = offsets.with_range(runs[-1])
    return position, tuple(runs)


def _paired(
    evidence: LogReader[H, Payload], steps: Iterator[Step[H, Payload]], payload: Payload, length: int
) -> tuple[SourceOffset, SourceOffset]:
    """Where the next committed batches begin and end that reach over `length` offsets. Raises Diverged: others."""
    found: list[Append[H, Payload]] = []
    for step in steps:
        if isinstance(step, Refuse):
            raise step.error
        if isinstance(step, Fill):
            continue
        found.append(step)
        start, reached = found[0].start, step.until - found[0].start >= length
        if (reached or len(found) == 1) and not evidence.same(payload, [each.payload for each in found], 0):
            raise Diverged(f"source offset {start} holds another record than the destination where it should be")
        if reached:
            return start, step.until
    raise Diverged("the source no longer has the offsets that the destination must be compared with")


def without_data(
    evidence: LogReader[H, Payload], ends: CopyEnds, offsets: OffsetMap, data_until: DestinationOffset
) -> ResumePoint:
    """Nothing was copied yet, or retention or compaction deleted all of it: it lay before `data_until`, if anywhere."""
    start = evidence.source_start()
    copied = offsets.origin(data_until)
    position = SourceOffset(max(start.first_batch, copied))
    # A log that never held data: what the broker expects there can only be a late append's.
    sequence = (evidence.next_sequence() or 0) if data_until else 0
    if evidence.copy_ends() != ends:  # what landed meanwhile is in `sequence`, not in `position`
        raise NotCommittedYet(f"the destination log grew beyond {ends.end} while its last producer was being looked up")
    if offsets.runs and not ends.end:
        raise Diverged(
            "the mirror topic is empty but has the offset map of an earlier topic: it was deleted and re-created"
        )
    align = LogStartGap(start.first_batch) if ends.start < start.first_batch else None
    begun = ends.start > 0 or data_until < ends.end  # else it was filled at most: the mirror begins at the log start
    lost = LostSpan(copied, start.log_start) if begun and copied < start.log_start else None
    return ResumePoint(position, ends.end, sequence, start_fill=align, lost=lost)


def above_log_start(evidence: LogReader[H, Payload], ends: CopyEnds, found: ResumePoint) -> ResumePoint:
    """If retention deleted records at the source before they were copied, resume at its log start (KIP-1279)."""
    start = evidence.source_start()
    if found.position >= start.log_start:
        return found
    to = start.first_batch
    # What was copied before is history: a run of it that a zombie writes late must not reach beyond this point.
    run = OffsetRange(to, DestinationOffset(max(to, found.end)))
    position = SourceOffset(max(found.position, to))
    align = LogStartGap(to) if ends.start < to else None  # else it has been done: shifted data reaches above it
    lost = LostSpan(found.position, start.log_start)
    return replace(found, position=position, runs=(*found.runs, run), start_fill=align, lost=lost)
