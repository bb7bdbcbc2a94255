"""Pairs the records of a source with those of its copy, batch by batch: the port `LogPairs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.mapped_runs import first_runs
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.restored_ranges import RestoredRanges
from tanist.kafka.adapters.committed_records import judged_batches
from tanist.kafka.protocol.paired_records import pair
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition, SourcePartition, TopicPartition
    from tanist.domain.offset_map import AnchoredSpan
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class KafkaLogPairs:
    """Between two clusters. Owned by one thread."""

    def __init__(self, source: Router, destination: Router) -> None:
        self._source = source
        self._destination = destination

    def ranges(
        self, at: MirrorPartition, there: SourcePartition, span: AnchoredSpan, by: Deadline
    ) -> RestoredRanges | str:
        source_start = max(span.start.source, value(list_offsets(self._source, {there: End.EARLIEST}, by)[there]))
        copy_start = max(span.start.destination, value(list_offsets(self._destination, {at: End.EARLIEST}, by)[at]))
        source, copy = (self._source, there, span.until.source), (self._destination, at, span.until.destination)
        if source_start >= span.until.source:
            return f"the source begins at {source_start}: older records are gone"
        if copy_start >= span.until.destination:
            return f"the mirror partition begins at {copy_start}: older records are gone"
        begin: tuple[OffsetRange, ...] = (span.start,)
        if (source_start, copy_start) != (span.start.source, span.start.destination):
            begin = _common_begin(_records(*source, source_start, by), _records(*copy, copy_start, by))
            if copy_start == 0 == begin[0].destination:
                begin = first_runs(begin[0].source, begin[0].destination)
        found = RestoredRanges(begin)
        why = pair(
            judged_batches(*source[:2], found.read.source, span.until.source, by),
            span.until.source,
            judged_batches(*copy[:2], found.read.destination, span.until.destination, by),
            found,
        )
        if why:
            return why
        if any(_records(*source, found.read.source, by)):
            return f"the source has records from offset {found.read.source} on that the copy does not have"
        return found


def _records(router: Router, at: TopicPartition, until: int, begin: int, by: Deadline) -> list[tuple[int, int]]:
    """Where committed records begin that follow each other, and how many they are, in their order."""
    return [] if begin >= until else list(_runs(router, at, until, begin, by))


def _runs(router: Router, at: TopicPartition, until: int, begin: int, by: Deadline) -> Iterator[tuple[int, int]]:
    for header, _, is_seen in judged_batches(router, at, begin, until, by):
        first, end = max(begin, header.base_offset), min(until, header.next_offset)
        if is_seen and first < end:
            yield first, end - first


def _common_begin(source: list[tuple[int, int]], copy: list[tuple[int, int]]) -> tuple[OffsetRange, ...]:
    """The first record that both logs have, if their last ones are the same: counted from there."""
    more = sum(count for _, count in source) - sum(count for _, count in copy)
    begin = _behind(source, max(0, more)), _behind(copy, max(0, -more))
    return (OffsetRange(SourceOffset(begin[0]), DestinationOffset(begin[1])),)


def _behind(records: list[tuple[int, int]], skipped: int) -> int:
    """Where the record is that so many others are before; of no records 0."""
    for first, count in records:
        if skipped < count:
            return first + skipped
        skipped -= count
    return sum(records[-1]) if records else 0
