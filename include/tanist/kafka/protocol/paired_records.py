"""Pairs the committed records of a source with those of its copy, in their order: where each of them is in both logs.

Batches that were appended as they are at the source are compared as a whole, all others record by record.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.kafka.protocol.batch import same_records
from tanist.kafka.protocol.records_left import records_left

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.restored_ranges import RestoredRanges
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.records_left import RecordLeft

    Judged = tuple[BatchHeader, memoryview, bool]


def pair(source: Iterable[Judged], source_end: int, copy: Iterable[Judged], found: RestoredRanges) -> str:
    """Add to `found` where the records of `copy` are at the source; why that cannot be told; empty: all are found.

    Both logs are read on from `found.read`, with all batches: of each it is known whether a reader of committed
    records sees it. What was found before an error, or before `source` ended early, below `source_end`, is right, so
    the same call may go on there.

    Raises:
        CorruptBatch, UnsupportedBatch, and what reading the logs raises.
    """
    ours, theirs = _Log("the source", source, found.read.source), _Log("the copy", copy, found.read.destination)
    try:
        return _paired(ours, source_end, theirs, found)
    finally:
        found.read = OffsetRange(SourceOffset(ours.offset), DestinationOffset(theirs.offset))


def _paired(ours: _Log, source_end: int, theirs: _Log, found: RestoredRanges) -> str:
    while theirs.has_next():
        if not ours.has_next():
            if ours.offset < source_end and not ours.gap:
                return ""
            return ours.gap or f"the source has no record for the one at offset {theirs.offset} of the copy"
        at = OffsetRange(SourceOffset(ours.offset), DestinationOffset(theirs.offset))
        if ours.is_whole and theirs.is_whole and same_records(ours.batch, theirs.batch):
            count = ours.header.record_count
            ours.skip()
            theirs.skip()
        else:
            count = _same(ours, theirs)
            if not count:
                return f"offset {at.source} of the source and offset {at.destination} of the copy are different records"
        found.paired(at, count)
        found.size += theirs.passed
        theirs.passed = 0
    return theirs.gap


def _same(ours: _Log, theirs: _Log) -> int:
    """How many of the next records are the same in both logs, up to the end of a batch; 0: the next ones differ."""
    count = 0
    stamped = ours.header.is_log_append_time or theirs.header.is_log_append_time
    for one, other in zip(tuple(ours.records()), tuple(theirs.records()), strict=False):
        times = one.time + ours.header.base_timestamp, other.time + theirs.header.base_timestamp
        if one.rest != other.rest or (times[0] != times[1] and not stamped):
            break
        count += 1
    ours.drop(count)
    theirs.drop(count)
    return count


class _Log:
    """One log from an offset on. `offset`: of the next record, or up to where all is taken.

    `gap`: why nothing behind it is read; `passed`: bytes of taken batches.

    The log of a topic that no cleaner has touched has every offset, and every batch all of its records.
    """

    def __init__(self, name: str, batches: Iterable[Judged], begin: int) -> None:
        self.offset = begin
        self.gap = ""
        self.passed = 0
        self._name = name
        self._batches = iter(batches)
        self._left: deque[RecordLeft] | None = None
        self._has_batch = False

    def has_next(self) -> bool:
        """Whether there is another record."""
        while not self._has_batch and not self.gap:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self.header, self.batch, is_seen = batch
            if self.header.base_offset > self.offset or not (self.header.is_control or self.header.is_dense):
                self.gap = f"{self._name} lacks records from offset {self.offset} on: a cleaner was there"
            elif self.header.next_offset > self.offset:
                self._has_batch, self._left = is_seen, None
                if not is_seen:
                    self.offset = self.header.next_offset
        return self._has_batch

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the batch was taken."""
        return self.offset == self.header.base_offset

    def records(self) -> deque[RecordLeft]:
        """Those of the batch that are left."""
        if self._left is None:
            found = records_left(self.header, self.batch)
            self._left = deque(each for each in found if each.offset >= self.offset)
        return self._left

    def drop(self, count: int) -> None:
        """Take so many records."""
        left = self.records()
        for _ in range(count):
            left.popleft()
        self.offset += count
        if not left:
            self.skip()

    def skip(self) -> None:
        """Take all that is left of the batch."""
        self.offset = self.header.next_offset
        self._has_batch = False
        self.passed += self.header.size
