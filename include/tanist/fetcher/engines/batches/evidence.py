"""Reads both logs of partitions for `domain.recovery`; the common part in bulk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.answers import attempt
from tanist.domain.appending import later_history
from tanist.domain.broker_errors import OffsetOutOfRange
from tanist.domain.copying import AbortedTransaction, decide
from tanist.domain.errors import TanistError
from tanist.domain.log_ends import CopyEnds, above_copy_start
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.recovery import FIRST_LOOK, NotCommittedYet, SourceBehind, SourceStart
from tanist.fetcher.engines.batches.first_reads import FIRST_READ
from tanist.kafka.protocol.batch import ControlType, control_type, header_of, walk, whole_bytes
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.protocol.merging import is_made_of
from tanist.kafka.protocol.record_proof import visible
from tanist.kafka.protocol.records_left import contradiction, surplus_before
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from tanist.domain.copying import Step
    from tanist.domain.names import MirrorPartition
    from tanist.domain.offset_map import OffsetMap
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.engines.batches.first_reads import FirstReads
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_A = TypeVar("_A")
_B = TypeVar("_B")

NEXT_READ: Final = 1 << 20


def ends_abort(batch: memoryview) -> bool:
    """Whether a control batch is the ABORT marker of its producer's transaction."""
    return control_type(batch) is ControlType.ABORT


def committed_and_end(
    destination: Router, partitions: Sequence[MirrorPartition], by: Deadline
) -> Mapping[MirrorPartition, tuple[int, int] | TanistError]:
    """High watermark and true end of each; two requests to each leader.

    The high watermark is read first: equal numbers then mean that nothing was uncommitted in between.
    """
    marks = requests.list_offsets(destination, dict.fromkeys(partitions, End.HIGH_WATERMARK), by)
    ends = requests.list_offsets(destination, dict.fromkeys(partitions, End.LOG_END), by)
    return {at: _both(marks[at], ends[at]) for at in partitions}


def copy_ends(
    destination: Router, partitions: Sequence[MirrorPartition], by: Deadline
) -> Mapping[MirrorPartition, CopyEnds | TanistError]:
    """Log start, high watermark and true end of each; three requests to each leader."""
    starts = requests.list_offsets(destination, dict.fromkeys(partitions, End.EARLIEST), by)
    ends = committed_and_end(destination, partitions, by)
    return {at: _ends(starts[at], ends[at]) for at in partitions}


def source_starts(
    source: Router, partitions: Sequence[MirrorPartition], by: Deadline
) -> Mapping[MirrorPartition, SourceStart]:
    """Where each log of the source starts, and its first batch; two requests to each leader.

    Not there: an error, which is that of one partition, or the answer had no room for its first batch.
    """
    earliest = requests.list_offsets(source, dict.fromkeys(partitions, End.EARLIEST), by)
    starts = {at: each for at, each in earliest.items() if not isinstance(each, TanistError)}
    limits = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
    answers = requests.fetch(source, starts, by, limits, FIRST_READ) if starts else {}
    found: dict[MirrorPartition, SourceStart] = {}
    for at, fetched in answers.items():
        if isinstance(fetched, TanistError) or not (
            whole_bytes(fetched.records) or fetched.high_watermark == starts[at]
        ):
            continue
        start = attempt(partial(_start, starts[at], fetched))
        if not isinstance(start, TanistError):
            found[at] = start
    return found


def _start(earliest: int, fetched: FetchedPartition) -> SourceStart:
    """Raises CorruptBatch, UnsupportedBatch."""
    first = next((h.base_offset for h, _ in walk(fetched.records)), earliest)
    return SourceStart(SourceOffset(earliest), SourceOffset(min(first, earliest)))


def ids_and_ends(
    destination: Router, partitions: Sequence[MirrorPartition], by: Deadline
) -> Mapping[MirrorPartition, tuple[UUID | None, CopyEnds] | TanistError]:
    """The topic id of each mirror partition, and its ends.

    The id is read first: if the log already belongs to a re-created topic, appends with the earlier id are refused.
    """
    ids = requests.topic_ids(destination, partitions, by)
    ends = copy_ends(destination, partitions, by)
    return {at: _both(ids[at], ends[at]) for at in partitions}


def _both(one: _A | TanistError, other: _B | TanistError) -> tuple[_A, _B] | TanistError:
    if isinstance(one, TanistError):
        return one
    return other if isinstance(other, TanistError) else (one, other)


def _ends(start: int | TanistError, ends: tuple[int, int] | TanistError) -> CopyEnds | TanistError:
    if isinstance(start, TanistError):
        return start
    if isinstance(ends, TanistError):
        return ends
    return CopyEnds(DestinationOffset(start), DestinationOffset(ends[0]), DestinationOffset(ends[1]))


class WireLogReader:
    """Both logs of one partition. `ends`, and then its map, were read just before, in bulk; the rest on demand."""

    def __init__(
        self,
        assigned: Assigned,
        ends: CopyEnds,
        routers: tuple[Router, Router],
        offsets: OffsetMap,
        by: Deadline,
        *,
        holes: bool = False,
    ) -> None:
        self._at = assigned.partition
        self._first_ends: CopyEnds | None = ends
        self._copy_start = assigned.copy_start
        self._source, self._destination = routers
        self._offsets = offsets
        self._data_id = assigned.spec.data_id
        self._by = by
        self._holes = holes
        """Cleaners take records out of both logs."""
        self.start: SourceStart | None = None
        """As `source_starts` has read it a moment ago; None: not known."""
        self.seen_again: CopyEnds | None = None
        """The ends of the copy as they were read in bulk behind everything above; None: they were not, or something
        else of the logs was read since."""
        self.first_reads: FirstReads = {}
        """Answers to reads that are expected, given in bulk before `seen_again`."""
        self._epochs: dict[int, tuple[int, int]] = {}
        """Of the batches of the source, as they were first read: leader epoch and end, by the first offset of each."""
        self.progress: Callable[[], SourceOffset | None] = lambda: None

    def epoch_before(self, position: SourceOffset) -> int:
        """The leader epoch of the batch of the source that ends at `position`, as it was first read; -1: it was not."""
        return next((epoch for epoch, end in self._epochs.values() if end == position), -1)

    def explain(self, why: TanistError, ends: CopyEnds) -> TanistError:
        """SourceTruncated with the lost offsets, if the source's log shows that it lost copied records; else `why`.

        Either a later leader epoch has other records at their offsets (an election begins a new epoch where the new
        leader's log ended), or the source ends before the copy now. The second may pass: a new leader learns late how
        far its log is committed. So it is SourceBehind, with the missing offsets.

        Raises:
            SourceBehind: its log became shorter meanwhile. CorruptBatch, UnsupportedBatch: as `contradiction`.
        """
        ends = above_copy_start(ends, self._copy_start)
        offsets = self.offset_map()
        copied_until, end = offsets.origin(ends.end), self._source_end(End.LOG_END)
        at = self._first_difference(ends, offsets, min(copied_until, end, self._source_end(End.LAST_STABLE)))
        if at is not None:
            epoch, _ = self._epochs.get(at, (-1, 0))
            return later_history(at, copied_until, epoch) if epoch > self.epoch_before(at) >= 0 else why
        if isinstance(why, SourceBehind) and end < copied_until:
            return SourceBehind(
                f"{self._at}: the source lacks its offsets {end} to {copied_until - 1}, which were copied"
            )
        return why

    def _first_difference(self, ends: CopyEnds, offsets: OffsetMap, until: SourceOffset) -> SourceOffset | None:
        """The first offset below `until` at which both logs hold a record, but not the same; None: none near the end.

        They are compared backwards, record by record, until one is the same.
        """
        last, back = offsets.locate(until), FIRST_LOOK
        while True:
            start = DestinationOffset(max(ends.start, last - back))
            copied = self.destination(start, last) if start < last else ()
            at = self.contradiction([batch for _, batch in copied], offsets, until) if copied else None
            if at is None or start == ends.start or at > offsets.origin(DestinationOffset(copied[0][0].base_offset)):
                return at
            back *= 4

    def _source_end(self, end: End) -> SourceOffset:
        self.seen_again = None
        return SourceOffset(value(requests.list_offsets(self._source, {self._at: end}, self._by)[self._at]))

    def copy_ends(self) -> CopyEnds:
        """Of what the mirror has written; see `above_copy_start`."""
        ends, self._first_ends = self._first_ends or self.seen_again, None
        ends = ends if ends is not None else value(copy_ends(self._destination, [self._at], self._by)[self._at])
        return above_copy_start(ends, self._copy_start)

    def destination(
        self, start: DestinationOffset, until: DestinationOffset
    ) -> Sequence[tuple[BatchHeader, memoryview]]:
        found: list[tuple[BatchHeader, memoryview]] = []
        at: int = start
        size = FIRST_READ if until - start <= FIRST_LOOK else NEXT_READ
        while at < until:
            fetched = self._fetch(self._destination, at, Isolation.READ_UNCOMMITTED, size)
            batches = [(h, b) for h, b in walk(fetched.records) if at < h.next_offset]
            if not batches and self._holes and fetched.high_watermark >= until:
                break  # a cleaner has taken all that was here
            if not batches:
                raise NotCommittedYet(f"{self._at}: destination offsets {at} to {until - 1} cannot be read yet")
            found += batches
            at = batches[-1][0].next_offset
        return [(h, b) for h, b in found if h.base_offset < until]

    def offset_map(self) -> OffsetMap:
        return self._offsets

    def source(self, position: SourceOffset) -> Sequence[Step[BatchHeader, memoryview]] | None:
        try:
            fetched = self._fetch_source(position)
        except OffsetOutOfRange:
            return None
        aborted = [AbortedTransaction(*each) for each in fetched.aborted]
        steps = list(decide(position, walk(fetched.records), aborted, ends_abort))
        if not steps:
            raise SourceBehind(
                f"{self._at}: the source has nothing to read at {position} yet, but the destination has later records"
            )
        return steps

    def source_start(self) -> SourceStart:
        """Read once: both answers must belong together."""
        if self.start is None:
            earliest = self._source_end(End.EARLIEST)
            self.start = _start(earliest, self._fetch(self._source, earliest, Isolation.READ_UNCOMMITTED, FIRST_READ))
        return self.start

    def copied_until(self) -> SourceOffset | None:
        return self.progress()

    def next_sequence(self) -> int | None:
        self.seen_again = None
        producers = value(requests.describe_producers(self._destination, [self._at], self._by)[self._at])
        return next((p.last_sequence + 1 for p in producers if p.producer_id == self._data_id), None)

    def same(self, copied: memoryview, originals: Sequence[memoryview], skipped: int) -> bool:
        return is_made_of(copied, originals, skipped)

    def contradiction(
        self, copied: Sequence[memoryview], offsets: OffsetMap, below: SourceOffset | None = None
    ) -> SourceOffset | None:
        """As `CompactedLogReader` has it. `below`: only offsets before it are compared; None: all of `copied`."""
        at: int = max(
            offsets.origin(DestinationOffset(header_of(copied[0]).base_offset)), self.source_start().log_start
        )
        until = offsets.origin(DestinationOffset(header_of(copied[-1]).last_offset)) + 1
        until = until if below is None else min(until, below)
        return contradiction(copied, self._originals(at, until), offsets)

    def surplus_before(self, copied: Sequence[memoryview], offsets: OffsetMap, most: int) -> int | None:
        first = offsets.origin(DestinationOffset(header_of(copied[0]).base_offset))
        last = offsets.origin(DestinationOffset(header_of(copied[-1]).last_offset))
        until = min(last, self._source_end(End.LAST_STABLE))
        return surplus_before(
            copied, self._originals(max(first - most, self.source_start().log_start), until), offsets, most
        )

    def _originals(self, at: int, until: int) -> list[memoryview]:
        """The committed batches of the source that reach into [at, until). Raises SourceBehind if it ends before."""
        found: list[memoryview] = []
        while at < until:
            fetched = self._fetch_source(SourceOffset(at))
            seen = visible(fetched.records, fetched.aborted)
            if fetched.last_stable_offset < until:
                raise SourceBehind(f"{self._at}: the source ends before {until}, which was already copied")
            if seen.until is None:
                break
            found += [batch for _, batch in seen.batches]
            at = seen.until
        return found

    def _fetch_source(self, position: SourceOffset) -> FetchedPartition:
        """Raises OffsetOutOfRange below the log start, SourceBehind above the end."""
        try:
            fetched = self._fetch(self._source, position, Isolation.READ_COMMITTED, FIRST_READ)
        except OffsetOutOfRange as beyond:
            if position < self.source_start().log_start:
                raise
            raise SourceBehind(f"{self._at}: the source ends before {position}, which was already copied") from beyond
        for header, _ in walk(fetched.records):
            self._epochs.setdefault(header.base_offset, (header.leader_epoch, header.next_offset))
        return fetched

    def _fetch(self, router: Router, offset: int, isolation: Isolation, size: int) -> FetchedPartition:
        if (held := self.first_reads.pop((router, offset, isolation), None)) is not None:
            return held
        self.seen_again = None
        limits = FetchLimits(max_wait_ms=0, isolation=isolation)
        return value(requests.fetch(router, {self._at: offset}, self._by, limits, size)[self._at])
