"""Recovery of a partition whose logs lose records to their cleaners, each its own, while it is copied.

Of a batch the cleaner keeps base offset, last offset delta and base sequence, also if it takes all its records; count,
size and checksum change (measured on Kafka 4.3). So the next sequence is counted in offsets. The last batch of a
producer that the broker still knows is kept, at least empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tanist.domain.appending import DEPTH
from tanist.domain.errors import Diverged
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, after
from tanist.domain.offset_map import OffsetRange
from tanist.domain.recovery import (
    H,
    LogReader,
    Payload,
    ResumePoint,
    SourceBehind,
    above_log_start,
    committed_ends,
    last_data,
    look_below,
    without_data,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.offset_map import OffsetMap
    from tanist.domain.recovery import CopyTail
    from tanist.domain.writer_identity import MarkingWriter


class CompactedLogReader(LogReader[H, Payload], Protocol[H, Payload]):
    def contradiction(self, copied: Sequence[Payload], offsets: OffsetMap) -> SourceOffset | None:
        """The first source offset at which both logs hold a record, but not the same. Reads the source up to the end.

        `copied`: batches of the mirror partition, in order. What only one log holds says nothing: cleaners are at work.

        Raises:
            SourceBehind: the source ends before the last of `copied`.
        """
        ...

    def surplus_before(self, copied: Sequence[Payload], offsets: OffsetMap, most: int) -> int | None:
        """How many surplus gap markers lie before `copied`, at most `most`, by their records; None: it is not clear."""
        ...

    def copied_until(self) -> SourceOffset | None:
        """Everything before this source offset is known to be copied; None: nothing is known. It may be outdated."""
        ...


def recover_compacted_position(
    evidence: CompactedLogReader[H, Payload], writer: MarkingWriter, suspect_from: DestinationOffset | None = None
) -> ResumePoint:
    """Decide where copying resumes. Arguments and errors as of `recover_position`.

    Gap markers at the end of the log may be surplus, and a cleaner removes such ones, too: what lies between the last
    data batch and the markers that are left was copied only as far as is known. See `_copied_until`.
    """
    ends = committed_ends(evidence)
    tail = last_data(evidence, writer, ends, suspect_from)
    offsets = evidence.offset_map()
    look_below(evidence, writer, ends, tail, offsets)
    if not tail.data:
        return without_data(evidence, ends, offsets, _copied_until(evidence, offsets, ends.start, tail.markers_from))
    header, _ = tail.data[-1]
    runs = _unwritten_shift(evidence, tail, offsets, ends.start)
    offsets = offsets.with_range(runs[0]) if runs else offsets
    until = _copied_until(evidence, offsets, DestinationOffset(header.next_offset), tail.markers_from)
    position = SourceOffset(offsets.origin(DestinationOffset(until - 1)) + 1)
    sequence = after(header.base_sequence, header.next_offset - header.base_offset)
    last = EpochMs(header.max_timestamp)
    return above_log_start(evidence, ends, ResumePoint(position, ends.end, sequence, runs, last_timestamp=last))


def _unwritten_shift(
    evidence: CompactedLogReader[H, Payload], tail: CopyTail[H, Payload], offsets: OffsetMap, start: DestinationOffset
) -> tuple[OffsetRange, ...]:
    """The range that a worker did not write before it died: a surplus marker had landed before batches in flight.

    Empty: the map explains the log.

    Raises:
        Diverged: source and mirror partition hold different records at one offset.
        SourceBehind: the source ends before the copy.
    """
    try:
        if (at := _contradiction(evidence, tail, offsets)) is None:
            return ()
        why: Diverged | SourceBehind = Diverged(
            f"source offset {at} holds another record than the destination where it should be"
        )
    except SourceBehind as behind:
        why = behind
    for i in reversed(range(max(0, len(tail.data) - DEPTH), len(tail.data))):
        base = DestinationOffset(tail.data[i][0].base_offset)
        before = tail.data[i - 1][0].next_offset if i else max(start, tail.start)
        begun, copied = offsets.origin(base), offsets.origin(DestinationOffset(before - 1)) + 1 if before else 0
        surplus = None
        if begun > copied:
            surplus = evidence.surplus_before([payload for _, payload in tail.data[i:]], offsets, begun - copied)
        if surplus is not None:
            run = OffsetRange(SourceOffset(begun - surplus), base)
            if _contradiction(evidence, tail, offsets.with_range(run)) is None:
                return (run,)
    raise why


def _contradiction(
    evidence: CompactedLogReader[H, Payload], tail: CopyTail[H, Payload], offsets: OffsetMap
) -> SourceOffset | None:
    return evidence.contradiction([payload for _, payload in tail.data], offsets)


def _copied_until(
    evidence: CompactedLogReader[H, Payload],
    offsets: OffsetMap,
    data_until: DestinationOffset,
    markers_from: DestinationOffset,
) -> DestinationOffset:
    """Up to where the mirror partition is a copy. Nothing is left between `data_until` and `markers_from`.

    A cleaner removed it: gap markers, which may have been surplus, or batches that had only tombstones, of a producer
    id that the broker had forgotten. Too far would skip records of the source. Not far enough would append tombstones
    again, at other offsets. So the stored position decides, within both bounds.
    """
    if data_until == markers_from:
        return markers_from
    known = evidence.copied_until()
    if known is None:
        return data_until
    reached = offsets.locate(SourceOffset(known - 1)) + 1 if known > 0 else 0
    return DestinationOffset(min(max(data_until, reached), markers_from))
