"""Compares the logs of a destination with those of its source, read as raw batches: the port `LogPrefixes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.adoption import (
    AdoptableLog,
    ComparedRecord,
    LogRange,
    MirrorTopicPromoted,
    NotAPrefix,
    TailAtDestination,
    comparable_span,
    first_difference,
    last_same,
)
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.gap_markers import LAST_EPOCH
from tanist.domain.recovery import NotCommittedYet
from tanist.kafka.adapters.committed_records import judged_batches
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.adoption import CandidateLog
    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")

WINDOW: Final = 64
"""Offsets compared at a time; four times as many backwards as long as no record was among them."""
_PLACES: Final = (End.EARLIEST, End.LAST_STABLE, End.HIGH_WATERMARK, End.LOG_END)


@dataclass(slots=True)
class _Window:
    """What was read of one log: the records that readers of committed records get, and who wrote its batches.

    `left_out`: the offsets of records that are not compared. `fences`: those of producer fences that are no history.
    """

    records: dict[int, ComparedRecord] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)
    fences: list[int] = field(default_factory=list)
    writers: set[int] = field(default_factory=set)
    markers: set[int] = field(default_factory=set)
    transactional: bool = False

    def note(self, header: BatchHeader) -> None:
        if header.is_control:
            self.markers.add(header.producer_id)
            if header.producer_epoch == LAST_EPOCH:
                self.fences.append(header.base_offset)
        else:
            self.writers.add(header.producer_id)
            self.transactional = self.transactional or header.is_transactional


class KafkaLogPrefixes:
    """Between two clusters. Owned by one thread."""

    def __init__(self, source: Router, destination: Router) -> None:
        self._source = source
        self._destination = destination

    def adoptable(self, partitions: Mapping[_P, CandidateLog], by: Deadline) -> Mapping[_P, AdoptableLog | TanistError]:
        copies = _extents(self._destination, partitions, by)
        originals = _extents(self._source, partitions, by)  # read later: it only grows
        found: dict[_P, AdoptableLog | TanistError] = {}
        for at, candidate in partitions.items():
            try:
                copy = _settled(at, value(copies[at]))
                log = _Comparison(self._source, self._destination, at, candidate, by)
                found[at] = log.adoptable(value(originals[at]), copy)
            except Stopped:
                raise
            except TanistError as why:
                found[at] = why
        return found


def _extents(router: Router, partitions: Iterable[_P], by: Deadline) -> dict[_P, LogRange | TanistError]:
    wanted = list(partitions)
    answers = [list_offsets(router, dict.fromkeys(wanted, place), by) for place in _PLACES]
    found: dict[_P, LogRange | TanistError] = {}
    for at in wanted:
        try:
            found[at] = LogRange(*(value(answer[at]) for answer in answers))
        except TanistError as why:
            found[at] = why
    return found


def _settled(at: TopicPartition, extent: LogRange) -> LogRange:
    if extent.high_watermark != extent.end:
        raise NotCommittedYet(f"{at}: the high watermark {extent.high_watermark} is below the end {extent.end}")
    return extent


class _Comparison:
    """Both logs of one partition."""

    def __init__(
        self, source: Router, destination: Router, at: TopicPartition, candidate: CandidateLog, by: Deadline
    ) -> None:
        self._source, self._destination = source, destination
        self._at, self._by, self._compacted, self._candidate = at, by, candidate.compacted, candidate

    def adoptable(self, source: LogRange, copy: LogRange) -> AdoptableLog:
        """The destination's log, if it may be copied to from its end on.

        Raises:
            NotAPrefix, TailAtDestination, MirrorTopicPromoted: it may not. CouldNotTell: it could not be read.
        """
        try:
            return self._prefix(source, copy)
        except NotAPrefix as why:
            for begin, end in self._candidate.reserved:
                seen = self._read(self._destination, max(begin, copy.start), min(end, copy.last_stable))
                if seen.left_out:
                    raise TailAtDestination(
                        f"{why.reason}; it has {len(seen.left_out)} record(s) at offsets {seen.left_out[0]} to "
                        f"{seen.left_out[-1]}, which a failover has reserved"
                    ) from why
            raise

    def _prefix(self, source: LogRange, copy: LogRange) -> AdoptableLog:
        if not copy.end:
            return AdoptableLog(0)
        try:
            start, end = comparable_span(source, copy)
        except NotAPrefix as why:
            self._must_not_be_fenced(max(copy.start, copy.end - WINDOW), copy.end)
            raise NotAPrefix(f"{self._at}: {why.reason}") from None
        self._compare_start(start, end)
        found = self._compare_end(start, end)
        self._must_end_a_batch(source, end)
        return found

    def _compare_start(self, start: int, end: int) -> None:
        until = min(end, start + WINDOW)
        if (differs := self._difference(start, until)) is not None:
            raise self._differ(differs)

    def _compare_end(self, start: int, end: int) -> AdoptableLog:
        window = WINDOW
        while True:
            begin = max(start, end - window)
            source, copy = self._read(self._source, begin, end), self._read(self._destination, begin, end)
            differs = first_difference(source.records, copy.records, compacted=self._compacted)
            if differs is not None:
                raise self._differ(self._earliest(start, differs))
            same = last_same(source.records, copy.records)
            if copy.fences and copy.fences[-1] > same:
                raise self._promoted(copy.fences[-1])
            if same >= 0 or begin == start:
                break
            window *= 4
        if same < 0 and start < end and (self._compacted or copy.records or copy.left_out):
            raise NotAPrefix(f"{self._at}: there is no record that both clusters still have: nothing can be compared")
        both = source.records.keys() & copy.records.keys()
        return AdoptableLog(
            end, len(both), frozenset(copy.writers), frozenset(copy.markers), transactional=copy.transactional
        )

    def _earliest(self, start: int, differs: int) -> int:
        """The first difference; by bisection, as a log that has been shifted stays so."""
        while differs - start > WINDOW:
            middle = (start + differs) // 2
            found = self._difference(middle, min(middle + WINDOW, differs))
            start, differs = (start, found) if found is not None else (middle + 1, differs)
        found = self._difference(start, differs)
        return differs if found is None else found

    def _difference(self, begin: int, end: int) -> int | None:
        ours, theirs = self._read(self._source, begin, end), self._read(self._destination, begin, end)
        return first_difference(ours.records, theirs.records, compacted=self._compacted)

    def _differ(self, offset: int) -> TanistError:
        try:
            self._must_not_be_fenced(max(0, offset - WINDOW), offset + WINDOW)
        except MirrorTopicPromoted as promoted:
            return promoted
        return NotAPrefix(f"{self._at}: the first differing offset is {offset}")

    def _must_not_be_fenced(self, begin: int, end: int) -> None:
        extent = value(_extents(self._destination, [self._at], self._by)[self._at])
        seen = self._read(self._destination, max(begin, extent.start), min(end, extent.last_stable))
        if seen.fences:
            raise self._promoted(seen.fences[-1])

    def _promoted(self, offset: int) -> MirrorTopicPromoted:
        return MirrorTopicPromoted(f"{self._at} has a producer fence at offset {offset}")

    def _must_end_a_batch(self, source: LogRange, end: int) -> None:
        """Only whole batches of a topic that is not compacted can be copied."""
        if self._compacted or not source.start < end < source.last_stable:
            return
        batches = judged_batches(self._source, self._at, end, end + 1, self._by)
        first = next((header for header, _, _ in batches), None)
        if first is not None and first.base_offset < end and not first.is_control:
            raise NotAPrefix(
                f"{self._at}: it ends at {end}, inside the source's batch of offsets {first.base_offset} to "
                f"{first.last_offset}: only whole batches can be copied"
            )

    def _read(self, router: Router, begin: int, end: int) -> _Window:
        """Raises CouldNotTell: the log cannot be read up to `end`."""
        seen = _Window()
        for header, batch, is_seen in judged_batches(router, self._at, begin, end, self._by):
            seen.note(header)
            for record in records_left(header, batch) if is_seen else ():
                if not begin <= record.offset < end:
                    continue
                if self._candidate.compares(record.offset):
                    seen.records[record.offset] = ComparedRecord(record.rest, record.has_key)
                else:
                    seen.left_out.append(record.offset)
        seen.fences = [each for each in seen.fences if each >= self._candidate.history]
        return seen
