"""Where two logs part, and what the old source has behind that, read as raw batches: the port `DivergentTails`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.failback.prefix import NOTHING_SEEN, LogWindow, WindowRecord, common_end, compare
from tanist.domain.failback.survey import TailCounts
from tanist.domain.failback.torn import TransactionBatch, parts_of
from tanist.domain.names import EpochMs
from tanist.kafka.adapters.committed_records import committed, judged_batches
from tanist.kafka.protocol.batch import ControlType, control_type
from tanist.kafka.protocol.origin import key_of
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, list_offsets, offset_for_leader_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from tanist.domain.failback.prefix import Agreement
    from tanist.domain.failback.torn import TransactionPart
    from tanist.domain.names import MirrorPartition
    from tanist.kafka.adapters.committed_records import Committed
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.records_left import RecordLeft
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import CopiedSpan, TailSpan

    _T = TypeVar("_T")
    _A = TypeVar("_A")

LOOK_AHEAD: Final = 64
"""Offsets that are read behind a window: they tell a copy for a hole, which is followed by its record."""
_LONG: Final = 64
"""Bytes of a record from which on a digest is kept while it is compared."""
_MARKERS: Final = (ControlType.COMMIT, ControlType.ABORT)


class KafkaDivergentTails:
    """Between two clusters. Owned by one thread."""

    def __init__(self, source: Router, destination: Router) -> None:
        self._source = source
        self._destination = destination

    def common_ends(
        self, copied: Mapping[MirrorPartition, CopiedSpan], by: Deadline
    ) -> Mapping[MirrorPartition, int | TanistError]:
        return _each(copied, lambda at, span: self._common_end(at, span, by))

    def counts(
        self, tails: Mapping[MirrorPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[MirrorPartition, TailCounts | TanistError]:
        return _each(tails, lambda at, tail: self._counts(at, *tail, by))

    def transactions(
        self, spans: Mapping[MirrorPartition, TailSpan], by: Deadline
    ) -> Mapping[MirrorPartition, tuple[TransactionPart, ...] | TanistError]:
        return _each(spans, lambda at, span: tuple(parts_of(at, span.common_end, self._transactional(at, span, by))))

    def _transactional(self, at: MirrorPartition, span: TailSpan, by: Deadline) -> Iterator[TransactionBatch]:
        start = value(list_offsets(self._source, {at: End.EARLIEST}, by)[at])
        for header, batch, _ in judged_batches(self._source, at, max(span.begin, start), span.end, by):
            kind = control_type(batch) if header.is_control else None
            if kind in _MARKERS or (kind is None and header.is_transactional):
                commits = None if kind is None else kind is ControlType.COMMIT
                yield TransactionBatch(
                    header.base_offset, header.producer_id, header.producer_epoch, header.max_timestamp, commits
                )

    def _common_end(self, at: MirrorPartition, span: CopiedSpan, by: Deadline) -> int:
        start = max(value(list_offsets(router, {at: End.EARLIEST}, by)[at]) for router in self._both)
        bound = min(span.end, span.source_end)

        def look(begin: int, end: int) -> Agreement:
            if any(first <= begin and end <= behind for first, behind in span.reserves):
                return NOTHING_SEEN
            until = min(bound, end + LOOK_AHEAD)
            ours, theirs = (_window(router, at, begin, until, by) for router in self._both)
            return compare(ours, theirs, (begin, end), span.reserves, last=until == bound)

        if span.last_epoch < 0:
            return common_end(look, start, bound, None)
        epoch = value(offset_for_leader_epoch(self._source, {at: span.last_epoch}, by)[at])
        return common_end(look, start, bound, epoch.end_offset, certain=span.certain)

    @property
    def _both(self) -> tuple[Router, Router]:
        return self._source, self._destination

    def _counts(self, at: MirrorPartition, begin: int, end: int, by: Deadline) -> TailCounts:
        counting = _Counting()
        start = value(list_offsets(self._source, {at: End.EARLIEST}, by)[at])
        for record in committed(self._source, at, max(begin, start), end, by):
            counting.add(record)
        return counting.counts()


def _window(router: Router, at: MirrorPartition, begin: int, end: int, by: Deadline) -> LogWindow:
    records: dict[int, WindowRecord] = {}
    hidden: set[int] = set()
    for header, batch, is_seen in judged_batches(router, at, begin, end, by):
        if is_seen:
            left = (each for each in records_left(header, batch) if begin <= each.offset < end)
            records |= {each.offset: _compared(header, each) for each in left}
        elif header.is_dense:
            hidden.update(range(max(begin, header.base_offset), min(end, header.next_offset)))
    return LogWindow(records, hidden)


def _compared(header: BatchHeader, record: RecordLeft) -> WindowRecord:
    return WindowRecord(
        time=header.base_timestamp + record.time,
        content=record.rest if len(record.rest) <= _LONG else hashlib.sha256(record.rest).digest(),
        stamped=header.is_log_append_time,
        has_key=record.has_key,
        is_tombstone=record.is_tombstone,
    )


def _each(
    wanted: Mapping[MirrorPartition, _A], find: Callable[[MirrorPartition, _A], _T]
) -> dict[MirrorPartition, _T | TanistError]:
    found: dict[MirrorPartition, _T | TanistError] = {}
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
