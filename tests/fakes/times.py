"""Logs of records with timestamps in memory, and the port `RecordTimes` over them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tanist.domain.errors import TanistError
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.record_times import FirstSince, ReadLimits, TimedRecord, TimestampType, UnreadLog, UnreadRecords
from tanist.usecases.groups.times import read_times
from tanist.usecases.mirror import OpenMirror
from tests.builders import AT, a_command, a_mirror
from tests.fakes.cluster import MemoryCluster, nowhere, pair_with

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.domain.record_times import TimedPosition
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")
ALL: Final = ReadLimits()


class Entry(NamedTuple):
    """What is at an offset. `content`: key, value and headers; None: a marker. `aborted`: by its transaction."""

    timestamp: int
    content: str | None = None
    aborted: bool = False

    @property
    def is_visible(self) -> bool:
        return self.content is not None and not self.aborted


@dataclass
class MemoryLog:
    """`entries` by offset; offsets without one were cleaned. `stable`: None, if no transaction is open.

    `type`: of all records; those below `stamped` have the time of the broker.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    stable: int | None = None
    type: TimestampType = TimestampType.CREATE
    stamped: int = 0

    def add(self, timestamp: int, content: str | None = None, *, aborted: bool = False) -> int:
        """One more at the end; its offset."""
        self.entries[self.end] = Entry(timestamp, content, aborted)
        self.end += 1
        return self.end - 1

    def records(self, begin: int, end: int) -> Iterator[TimedRecord]:
        """All in [begin, end) but markers, aborted ones included."""
        for offset, entry in sorted(self.entries.items()):
            if max(begin, self.start) <= offset < end and entry.content is not None:
                digest = f"{entry.timestamp} {entry.content}".encode()
                kind = TimestampType.LOG_APPEND if offset < self.stamped else self.type
                yield TimedRecord(offset, EpochMs(entry.timestamp), digest, kind)

    def visible(self, begin: int, end: int | None = None) -> Iterator[TimedRecord]:
        until = self.last_stable if end is None else min(end, self.last_stable)
        return (each for each in self.records(begin, until) if self.entries[each.offset].is_visible)

    @property
    def last_stable(self) -> int:
        return self.end if self.stable is None else self.stable


@dataclass
class MemoryTimes:
    """The port `RecordTimes`. Of `ReadLimits.unread_bytes` each record takes one. `failing`: partitions by error."""

    logs: Mapping[Any, MemoryLog]
    failing: dict[Any, TanistError] = field(default_factory=dict)

    def unread(
        self, positions: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, UnreadLog | TanistError]:
        return {
            at: self.failing.get(at) or _unread(self.logs[at], each, limits.unread_bytes)
            for at, each in positions.items()
        }

    def before(
        self, offsets: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[int, TimedRecord | None] | TanistError]:
        return {
            at: self.failing.get(at) or {each: _last(self.logs[at], each) for each in wanted}
            for at, wanted in offsets.items()
        }

    def since(
        self, times: Mapping[_P, Collection[EpochMs]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[EpochMs, FirstSince | None] | TanistError]:
        if bad := [each for wanted in times.values() for each in wanted if each < 0]:
            raise ValueError(f"no times to look for: {bad}")
        return {
            at: self.failing.get(at) or {each: _since(self.logs[at], each) for each in wanted}
            for at, wanted in times.items()
        }


def _last(log: MemoryLog, offset: int) -> TimedRecord | None:
    found = list(log.visible(0, offset))
    return found[-1] if found else None


def _unread(log: MemoryLog, positions: Collection[int], most: int) -> UnreadLog:
    found: dict[int, UnreadRecords] = {}
    offsets: dict[bytes, int] = {}
    for position in positions:
        record = next(log.visible(position), None)
        whole = record is None or log.end - position <= most
        until = log.end if whole or record is None else record.offset + 1
        unread = list(log.records(position, until))
        for each in unread:
            offsets[each.digest] = max(each.offset, offsets.get(each.digest, each.offset))
        gone = (offset for offset in range(position, until) if offset not in log.entries or offset < log.start)
        found[position] = UnreadRecords(
            record=record,
            missing=next(gone, None),
            earliest=min(unread, key=lambda each: each.timestamp, default=None),
            until=until,
            whole=whole,
        )
    return UnreadLog(start=log.start, end=log.end, unread=found, offsets=offsets)


def _since(log: MemoryLog, time: EpochMs) -> FirstSince | None:
    inside = range(log.start, log.last_stable)
    offset = next((at for at in inside if at in log.entries and log.entries[at].timestamp >= time), None)
    if offset is None:
        return None
    record = next((each for each in log.visible(offset) if each.timestamp >= time), None)
    following = () if record is None else tuple(log.visible(record.offset))
    return FirstSince(offset=offset, record=record, following=following)


def between(source: MemoryTimes | TanistError, copy: MemoryTimes) -> OpenMirror:
    """A mirror of two clusters that have only these logs."""
    side = MemoryCluster().side()
    return OpenMirror(
        spec=a_mirror(),
        source=source if isinstance(source, TanistError) else replace(side, times=source),
        destination=replace(side, times=copy),
        pair=pair_with(),
        from_source=nowhere,
    )


def timed(
    source: MemoryLog, copy: MemoryLog, positions: Collection[int], limits: ReadLimits = ALL
) -> Mapping[SourceOffset, TimedPosition]:
    """What is read of one partition and of its copy."""
    mirror = between(MemoryTimes({AT: source}), MemoryTimes({AT: copy}))
    ends = {AT: Span(DestinationOffset(copy.start), DestinationOffset(copy.end))}
    found = read_times(mirror, {AT: [SourceOffset(each) for each in positions]}, ends, a_command(), limits)[AT]
    assert not isinstance(found, TanistError), found
    return found
