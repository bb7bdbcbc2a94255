"""What one log holds from several positions on: the record at each, and the least timestamp of those that follow."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.record_times import TimedRecord, UnreadLog, UnreadRecords
from tanist.kafka.adapters.concurrent_reading import FIRST_BYTES, MOST_BYTES, part_of
from tanist.kafka.adapters.log_reader import UnreadSpan
from tanist.kafka.protocol.frames import Isolation
from tanist.kafka.protocol.timed_records import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tanist.domain.log_ends import LogEnds
    from tanist.kafka.adapters.concurrent_reading import Reading, TimedPart
    from tanist.kafka.protocol.timed_records import TimedBatch


def unread_log(ends: LogEnds, positions: Collection[int], unread_bytes: int) -> Reading[UnreadLog]:
    """As `RecordTimes.unread` says, of one partition. Records of open transactions are read for their times only."""
    log, found = _Log(ends, unread_bytes), dict[int, UnreadRecords]()
    for position in sorted(set(positions), reverse=True):
        found[position] = yield from log.unread(position)
    return UnreadLog(start=ends.start, end=ends.high_watermark, unread=found, offsets=log.offsets)


class _Seen(NamedTuple):
    """Of a range of offsets that was read: as in `UnreadRecords`."""

    record: TimedRecord | None
    missing: int | None
    earliest: TimedRecord | None


@dataclass
class _Log:
    """Read from higher positions to lower ones.

    `low`: from there on the log was read without a break up to `above.until`, and `batches` are those of it that reach
    below the position of `above`, which is what was seen from there on.
    """

    ends: LogEnds
    left: int
    offsets: dict[bytes, int] = field(default_factory=dict)
    low: int = 0
    at: int = 0
    above: UnreadRecords = field(init=False)
    batches: deque[TimedBatch] = field(default_factory=deque)

    def __post_init__(self) -> None:
        end = self.ends.high_watermark
        self.low = self.at = end
        self.above = UnreadRecords(record=None, missing=None, earliest=None, until=end, whole=True)

    def unread(self, position: int) -> Reading[UnreadRecords]:
        """From `position` on, which is lower than those before."""
        begin = min(max(position, self.ends.start), self.ends.high_watermark)
        if begin < self.low:
            yield from self._read(begin)
        seen = _seen(self.batches, begin, self.at)
        record = seen.record or self.above.record
        self.above = UnreadRecords(
            record=record,
            missing=self.above.missing if seen.missing is None else seen.missing,
            earliest=_earlier(seen.earliest, self.above.earliest),
            until=self.above.until,
            whole=self.above.whole,
        )
        self.at = begin
        return self.above if position >= begin else replace(self.above, missing=position)

    def _read(self, begin: int) -> Reading[None]:
        """Up to what was read before; or, where too many bytes are between, until there is a record."""
        end = self.ends.high_watermark
        stable = min(self.ends.last_stable, self.low)
        found, has_record, position, size = list["TimedBatch"](), False, begin, FIRST_BYTES
        while position < self.low and (self.left > 0 or not has_record):
            isolation = Isolation.READ_COMMITTED if position < stable else Isolation.READ_UNCOMMITTED
            span = UnreadSpan(position, stable if position < stable else self.low)
            part = yield from part_of(span, isolation, size)
            batches = _pending(part) if isolation is Isolation.READ_UNCOMMITTED else part.batches
            found += batches
            has_record = has_record or any(visible(batches, begin))
            self.left -= part.size
            position = max(part.until, position)
            size = MOST_BYTES
        if position < self.low:
            self.above = UnreadRecords(record=None, missing=None, earliest=None, until=position, whole=position >= end)
            self.at, self.batches = position, deque()
        kept = [each for each in found if each.base < self.low] if position >= self.low else found
        for record in (each for batch in kept for each in batch.records):
            self.offsets[record.digest] = max(record.offset, self.offsets.get(record.digest, record.offset))
        self.batches.extendleft(reversed(kept))
        self.low = min(begin, found[0].base) if found else begin


def _pending(part: TimedPart) -> list[TimedBatch]:
    """Of open transactions: no reader of committed records sees them yet."""
    return [each._replace(visible=False) for each in part.batches]


def _seen(batches: deque[TimedBatch], begin: int, end: int) -> _Seen:
    """In [begin, end), of which `batches` are in order. Those that are not needed below `end` are dropped from them."""
    while batches and batches[-1].base >= end:
        batches.pop()
    inside = [
        each
        for batch in takewhile(lambda batch: batch.base < end, batches)
        for each in batch.records
        if begin <= each.offset < end
    ]
    record = next((each for each in visible(batches, begin) if each.offset < end), None)
    return _Seen(
        record, _missing(batches, begin, end), min(inside, key=lambda each: (each.timestamp, each.offset), default=None)
    )


def _missing(batches: Iterable[TimedBatch], begin: int, end: int) -> int | None:
    """The first offset in [begin, end) that is of no batch, or of a batch that has no record there any more."""
    position = begin
    for batch in batches:
        if position >= end or batch.base > position:
            break
        there = frozenset[int]() if batch.dense else {each.offset for each in batch.records}
        inside = range(position, position if batch.dense else min(end, batch.next_offset))
        gap = next((offset for offset in inside if offset not in there), None)
        if gap is not None:
            return gap
        position = max(position, batch.next_offset)
    return position if position < end else None


def _earlier(one: TimedRecord | None, later: TimedRecord | None) -> TimedRecord | None:
    """The one of the lesser timestamp; of equal ones the first."""
    if one is None or later is None:
        return one or later
    return later if later.timestamp < one.timestamp else one
