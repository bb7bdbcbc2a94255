"""Where two logs part, and what the old source has behind that, read as raw batches: the port `DivergentTails`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, Stopped, TanistError, TimedOut
from tanist.domain.failback.survey import TailCounts
from tanist.domain.names import EpochMs
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.protocol.record_proof import visible
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, fetch, list_offsets, offset_for_leader_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.records_left import RecordLeft
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import CopiedSpan

    _T = TypeVar("_T")
    _A = TypeVar("_A")

FIRST_WINDOW: Final = 64
"""Offsets compared at the end of the prefix; four times as many each time where they differ."""
_READ_BYTES: Final = 1 << 20


class KafkaDivergentTails:
    """Between two clusters. Owned by one thread."""

    def __init__(self, source: Router, destination: Router) -> None:
        self._source = source
        self._destination = destination

    def common_ends(
        self, copied: Mapping[TopicPartition, CopiedSpan], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        return _each(copied, lambda at, span: self._common_end(at, span, by))

    def counts(
        self, tails: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, TailCounts | TanistError]:
        return _each(tails, lambda at, tail: self._counts(at, *tail, by))

    def _common_end(self, at: TopicPartition, span: CopiedSpan, by: Deadline) -> int:
        starts = [value(list_offsets(router, {at: End.EARLIEST}, by)[at]) for router in self._both]
        start, bound = max(starts), min(span.end, span.source_end)
        if span.last_epoch >= 0:
            epoch = value(offset_for_leader_epoch(self._source, {at: span.last_epoch}, by)[at])
            bound = min(bound, epoch.end_offset) if epoch.end_offset >= 0 else bound
        first, window = bound, FIRST_WINDOW
        while start < first:
            begin = max(start, bound - window)
            differs = self._first_difference(at, begin, first, by)
            if differs is None:
                break
            first, window = differs, window * 4
            if differs > begin:
                break
        return first

    @property
    def _both(self) -> tuple[Router, Router]:
        return self._source, self._destination

    def _first_difference(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> int | None:
        """The first offset at which both logs have a record, but not the same; what only one has says nothing."""
        ours, theirs = (dict(self._records(router, at, begin, end, by)) for router in self._both)
        return next((offset for offset in sorted(ours.keys() & theirs.keys()) if ours[offset] != theirs[offset]), None)

    def _records(
        self, router: Router, at: TopicPartition, begin: int, end: int, by: Deadline
    ) -> Iterator[tuple[int, bytes]]:
        """Key, value and headers of each. Times are left out: those of LogAppendTime are not copied."""
        for _, record in _read(router, at, begin, end, by):
            yield record.offset, record.rest

    def _counts(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> TailCounts:
        counting = _Counting()
        for base, record in _read(self._source, at, begin, end, by):
            counting.add(base + record.time, record)
        return counting.counts()


def _each(
    wanted: Mapping[TopicPartition, _A], find: Callable[[TopicPartition, _A], _T]
) -> dict[TopicPartition, _T | TanistError]:
    found: dict[TopicPartition, _T | TanistError] = {}
    for at, about in wanted.items():
        try:
            found[at] = find(at, about)
        except Stopped:
            raise
        except TanistError as why:
            found[at] = why
    return found


def _read(router: Router, at: TopicPartition, begin: int, end: int, by: Deadline) -> Iterator[tuple[int, RecordLeft]]:
    """The committed records of a span, each with the time that its own counts from.

    Raises:
        CouldNotTell: the log cannot be read up to `end`.
    """
    while begin < end:
        if not by.left(time.monotonic()):
            raise TimedOut(f"{at} could not be read from offset {begin} to {end} in time")
        fetched = value(fetch(router, {at: begin}, by, FetchLimits(max_wait_ms=0), _READ_BYTES)[at])
        seen = visible(fetched.records, fetched.aborted)
        for header, batch in seen.batches:
            base = header.max_timestamp if header.is_log_append_time else header.base_timestamp
            for record in records_left(header, batch):
                if begin <= record.offset < end:
                    yield base, record._replace(time=0) if header.is_log_append_time else record
        if seen.until is None or seen.until <= begin:
            if fetched.last_stable_offset >= end:
                return  # a cleaner has taken the rest
            raise CouldNotTell(f"{at} ends at offset {fetched.last_stable_offset} for readers, not at {end}")
        begin = seen.until


@dataclass(slots=True)
class _Counting:
    records: int = 0
    size: int = 0
    keys: set[bytes] = field(default_factory=set)
    first: int | None = None
    last: int | None = None

    def add(self, at: int, record: RecordLeft) -> None:
        self.records += 1
        self.size += len(record.rest)
        if record.has_key:
            self.keys.add(record.key)
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)

    def counts(self) -> TailCounts:
        return TailCounts(
            records=self.records,
            bytes=self.size,
            keys=len(self.keys),
            first=None if self.first is None else EpochMs(self.first),
            last=None if self.last is None else EpochMs(self.last),
        )
