"""Recovery of a partition whose logs lose records to their cleaners, each its own, while it is copied.

Of a batch the cleaner keeps base offset, last offset delta and base sequence, also if it takes all its records; count,
size and checksum change (measured on Kafka 4.3). So the next sequence is counted in offsets. The last batch of a
producer that the broker still knows is kept, at least empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tanist.domain.errors import Diverged
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, after
from tanist.domain.recovery import (
    H,
    LogReader,
    Payload,
    ResumePoint,
    above_log_start,
    committed_ends,
    last_data,
    look_below,
    without_data,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.offset_map import OffsetMap
    from tanist.domain.recovery import ProducerIds


class CompactedLogReader(LogReader[H, Payload], Protocol[H, Payload]):
    def contradiction(self, copied: Sequence[Payload], offsets: OffsetMap) -> SourceOffset | None:
        """The first source offset at which both logs hold a record, but not the same. Reads the source up to the end.

        `copied`: batches of the mirror partition, in order. What only one log holds says nothing: cleaners are at work.

        Raises:
            SourceBehind: the source ends before the last of `copied`.
        """
        ...


def recover_compacted_position(
    evidence: CompactedLogReader[H, Payload], producer_ids: ProducerIds, suspect_from: DestinationOffset | None = None
) -> ResumePoint:
    """Decide where copying resumes. Arguments and errors as of `recover_position`.

    Everything below the gap markers at the end of the log was copied, whether it is still there or not; the markers
    themselves may be surplus. So the position is where they begin, through the offset map.
    """
    ends = committed_ends(evidence)
    tail = last_data(evidence, producer_ids, ends, suspect_from)
    offsets = evidence.offset_map()
    look_below(evidence, producer_ids, ends, tail, offsets)
    if not tail.data:
        return without_data(evidence, ends, offsets, tail.markers_from)
    header, _ = tail.data[-1]
    if (at := evidence.contradiction([payload for _, payload in tail.data], offsets)) is not None:
        raise Diverged(f"source offset {at} holds another record than the destination where it should be")
    position = SourceOffset(offsets.origin(DestinationOffset(tail.markers_from - 1)) + 1)
    sequence = after(header.base_sequence, header.next_offset - header.base_offset)
    last = EpochMs(header.max_timestamp)
    return above_log_start(evidence, ends, ResumePoint(position, ends.end, sequence, last_timestamp=last))
