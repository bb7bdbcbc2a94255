"""Records by their timestamps, over `kafka.wire`: the port `RecordTimes`."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import TanistError
from tanist.domain.record_times import FirstSince, TimedRecord, UnreadLog
from tanist.kafka.adapters.concurrent_reading import TimedPart, part_of, side_by_side
from tanist.kafka.adapters.log_reader import UnreadSpan
from tanist.kafka.adapters.unread_records import unread_log
from tanist.kafka.protocol.frames import Isolation
from tanist.kafka.protocol.timed_records import visible
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, first_since, list_offsets, readable_ends
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.record_times import ReadLimits
    from tanist.kafka.adapters.concurrent_reading import Reading
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.router import Router

_P = TypeVar("_P", bound="TopicPartition")
_E = TypeVar("_E")
_R = TypeVar("_R")

_COMMITTED: Final = Isolation.READ_COMMITTED
_ENDS: Final = 3
"""Requests that `readable_ends` makes."""
_BACK: Final = 8
"""Offsets read back from an offset at first; so many times as many each time while there is no record among them."""
SCAN_BYTES: Final = 256 << 10
"""Read on behind a marker that ListOffsets has answered, before the record is looked for by bisection."""
FOLLOWING: Final = 64
"""Records kept of those that came along with the first one of a time."""


class KafkaRecordTimes:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def unread(
        self, positions: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, UnreadLog | TanistError]:
        ends = readable_ends(self._router, list(positions), _until(limits, by, _ENDS))
        return self._each(ends, lambda at, log: unread_log(log, positions[at], limits.unread_bytes), limits, by)

    def before(
        self, offsets: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[int, TimedRecord | None] | TanistError]:
        ends = readable_ends(self._router, list(offsets), _until(limits, by, _ENDS))
        return self._each(ends, lambda at, log: _before(log, offsets[at]), limits, by)

    def since(
        self, times: Mapping[_P, Collection[EpochMs]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[EpochMs, FirstSince | None] | TanistError]:
        ends = list_offsets(self._router, dict.fromkeys(times, End.LAST_STABLE), _until(limits, by))
        offsets = self._offsets(times, limits, by)
        return self._each(ends, lambda at, end: _since(value(offsets[at]), end), limits, by)

    def _each(
        self, ends: Answers[_P, _E], reading: Callable[[_P, _E], Reading[_R]], limits: ReadLimits, by: Deadline
    ) -> Answers[_P, _R]:
        """What each partition's reading returns, given where its log ends."""
        readings: dict[_P, Reading[_R]] = {}
        failed: Answers[_P, _R] = {}
        for at, end in ends.items():
            try:
                readings[at] = reading(at, value(end))
            except TanistError as error:
                failed[at] = error
        return failed | side_by_side(self._router, readings, by, limits.poll_timeout_ms / 1000)

    def _offsets(
        self, times: Mapping[_P, Collection[EpochMs]], limits: ReadLimits, by: Deadline
    ) -> Answers[_P, dict[EpochMs, int]]:
        """As ListOffsets answers; a request takes one time of each partition."""
        left = {at: sorted(set(each)) for at, each in times.items()}
        found: Answers[_P, dict[EpochMs, int]] = {at: {} for at in times}
        while left := {at: each for at, each in left.items() if each}:
            now = {at: each.pop() for at, each in left.items()}
            for at, offset in first_since(self._router, now, _until(limits, by)).items():
                known = found[at]
                if isinstance(offset, TanistError):
                    found[at], left[at] = offset, []
                elif not isinstance(known, TanistError):
                    known[now[at]] = offset
        return found


def _until(limits: ReadLimits, by: Deadline, requests: int = 1) -> Deadline:
    """The deadline of so many requests."""
    return Deadline(min(by.at, time.monotonic() + requests * limits.poll_timeout_ms / 1000))


# ── backwards ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _before(ends: LogEnds, offsets: Collection[int]) -> Reading[Mapping[int, TimedRecord | None]]:
    found: dict[int, TimedRecord | None] = {}
    for offset in sorted(set(offsets)):
        found[offset] = yield from _last(ends.start, min(offset, ends.last_stable))
    return found


def _last(start: int, end: int) -> Reading[TimedRecord | None]:
    """The last visible record in [start, end). There may be markers only near `end`."""
    offset, high, window = end, end, _BACK
    while high > start:
        low, last = max(start, high - window), None
        span = UnreadSpan(low, high)
        while not span.is_read:
            part = yield from part_of(span, _COMMITTED)
            for record in visible(part.batches, start):
                last = record if record.offset < offset else last
        if last is not None:
            return last
        high, window = low, window * _BACK
    return None


# ── by time ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Parts:
    """Parts of one log that were read, so that times that lie close together share them."""

    end: int
    begins: list[int] = field(default_factory=list)
    parts: list[TimedPart] = field(default_factory=list)

    def part(self, offset: int) -> Reading[TimedPart]:
        """One that has `offset`, which lies below the end."""
        index = bisect_right(self.begins, offset) - 1
        if index >= 0 and offset < self.parts[index].until:
            return self.parts[index]
        part = yield from part_of(UnreadSpan(offset, self.end), _COMMITTED)
        begin = min([offset, *(batch.base for batch in part.batches[:1])])
        index = bisect_right(self.begins, begin)
        self.begins.insert(index, begin)
        self.parts.insert(index, part)
        return part


def _since(answered: Mapping[EpochMs, int], end: int) -> Reading[Mapping[EpochMs, FirstSince | None]]:
    parts, found = _Parts(end), dict["EpochMs", "FirstSince | None"]()
    for since, offset in sorted(answered.items()):
        found[since] = None if offset < 0 else (yield from _first(parts, since, offset))
    return found


def _first(parts: _Parts, since: EpochMs, answered: int) -> Reading[FirstSince]:
    """The first visible record of `since` or later from `answered` on: read on there, then bisected by time."""
    position, scanned = answered, 0
    while position < parts.end:
        part = yield from parts.part(position)
        hit = _hit(part, position, since)
        if hit is not None:
            return FirstSince(offset=answered, record=hit, following=_following(part, hit))
        scanned, position = scanned + part.size, part.until
        if scanned > SCAN_BYTES:
            return (yield from _bisected(parts, since, answered, position))
    return FirstSince(offset=answered, record=None)


def _bisected(parts: _Parts, since: EpochMs, answered: int, low: int) -> Reading[FirstSince]:
    """As if timestamps from `low` on were in order: all before `low` are earlier than `since`, all from `high` on late.

    If they are not, it is a late record directly behind an early one, perhaps not the first of those.
    """
    high, best = parts.end, FirstSince(offset=answered, record=None, certain=False)
    while low < high:
        middle = position = (low + high) // 2
        part = yield from parts.part(position)
        while (first := next(visible(part.batches, position), None)) is None and part.until < high:
            position = part.until
            part = yield from parts.part(position)
        hit = _hit(part, position, since)
        if hit is not None:
            best = FirstSince(offset=answered, record=hit, certain=False, following=_following(part, hit))
        if first is not None and first is not hit:
            if hit is not None:
                return best
            low = part.until
        else:
            high = middle
    return best


def _hit(part: TimedPart, begin: int, since: EpochMs) -> TimedRecord | None:
    return next((each for each in visible(part.batches, begin) if each.timestamp >= since), None)


def _following(part: TimedPart, record: TimedRecord) -> tuple[TimedRecord, ...]:
    return tuple(islice(visible(part.batches, record.offset), FOLLOWING))
