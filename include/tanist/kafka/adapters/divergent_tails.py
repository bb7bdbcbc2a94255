"""Where two logs part, and what the old source has behind that, read as raw batches: the port `DivergentTails`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.failback.survey import TailCounts
from tanist.domain.failback.torn import TransactionPart
from tanist.domain.names import EpochMs
from tanist.kafka.adapters.committed_records import batches, committed
from tanist.kafka.protocol.markers import ControlType, control_type
from tanist.kafka.protocol.origin import key_of
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, list_offsets, offset_for_leader_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from tanist.domain.names import TopicPartition
    from tanist.kafka.adapters.committed_records import Committed
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import CopiedSpan

    _T = TypeVar("_T")
    _A = TypeVar("_A")

FIRST_WINDOW: Final = 64
"""Offsets compared at the end of the prefix; four times as many each time where they differ."""


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

    def transactions(
        self, spans: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, tuple[TransactionPart, ...] | TanistError]:
        return _each(spans, lambda at, span: tuple(self._transactions(at, *span, by)))

    def _transactions(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> Iterator[TransactionPart]:
        open_parts: dict[int, TransactionPart] = {}
        start = value(list_offsets(self._source, {at: End.EARLIEST}, by)[at])
        for header, batch in batches(self._source, at, max(begin, start), end, by):
            if header.is_control:
                part = open_parts.pop(header.producer_id, None)
                if control_type(batch) is ControlType.COMMIT and part is not None:
                    yield replace(part, marker=header.base_offset, ended=header.max_timestamp)
            elif header.is_transactional and header.producer_id not in open_parts:
                open_parts[header.producer_id] = TransactionPart(
                    at, header.producer_id, header.producer_epoch, header.base_offset, header.base_timestamp
                )
        yield from open_parts.values()

    def _common_end(self, at: TopicPartition, span: CopiedSpan, by: Deadline) -> int:
        """By records. The epoch tells only where cleaners have left no record to compare: it may be an earlier one."""
        starts = [value(list_offsets(router, {at: End.EARLIEST}, by)[at]) for router in self._both]
        common = self._agree_until(at, max(starts), min(span.end, span.source_end), by)
        if span.last_epoch < 0:
            return common
        epoch = value(offset_for_leader_epoch(self._source, {at: span.last_epoch}, by)[at])
        if not 0 <= epoch.end_offset < common or self._has_common_record(at, epoch.end_offset, common, by):
            return common
        return self._agree_until(at, max(starts), epoch.end_offset, by)

    def _agree_until(self, at: TopicPartition, start: int, bound: int, by: Deadline) -> int:
        """Up to where both logs agree, `bound` at most."""
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

    def _has_common_record(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> bool:
        """Whether both logs have the same record at an offset in [begin, end). The last ones are looked at first."""
        window = FIRST_WINDOW
        while begin < end:
            start = max(begin, end - window)
            ours, theirs = (dict(self._records(router, at, start, end, by)) for router in self._both)
            if ours.items() & theirs.items():
                return True
            end, window = start, window * 4
        return False

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
        for record in committed(router, at, begin, end, by):
            yield record.offset, record.rest

    def _counts(self, at: TopicPartition, begin: int, end: int, by: Deadline) -> TailCounts:
        counting = _Counting()
        start = value(list_offsets(self._source, {at: End.EARLIEST}, by)[at])
        for record in committed(self._source, at, max(begin, start), end, by):
            counting.add(record)
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


@dataclass(slots=True)
class _Counting:
    records: int = 0
    size: int = 0
    keys: set[bytes] = field(default_factory=set)
    first: int | None = None
    last: int | None = None

    def add(self, record: Committed) -> None:
        self.records += 1
        self.size += len(record.rest)
        if (key := key_of(record.rest)) is not None:
            self.keys.add(key)
        self.first = record.time if self.first is None else min(self.first, record.time)
        self.last = record.time if self.last is None else max(self.last, record.time)

    def counts(self) -> TailCounts:
        return TailCounts(
            records=self.records,
            bytes=self.size,
            keys=len(self.keys),
            first=None if self.first is None else EpochMs(self.first),
            last=None if self.last is None else EpochMs(self.last),
        )
