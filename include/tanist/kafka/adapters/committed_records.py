"""The committed records of a span of a log, as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tanist.kafka.adapters.log_reader import UnreadSpan, parts_of
from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.protocol.records_left import records_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class Committed(NamedTuple):
    """`time`: ms since 1970; `rest`: key, value and headers, as they are stored; `header`: of its batch."""

    offset: int
    time: int
    rest: bytes
    header: BatchHeader


def committed(router: Router, at: TopicPartition, begin: int, end: int, by: Deadline) -> Iterator[Committed]:
    """The records from `begin` up to `end` that are neither markers nor aborted, in their order.

    Raises:
        CouldNotTell: the log cannot be read up to `end`. TimedOut. BrokerError, CorruptBatch, UnsupportedBatch.
    """
    for header, batch, is_seen in judged_batches(router, at, begin, end, by):
        if not is_seen:
            continue
        stamped = header.is_log_append_time
        for record in records_left(header, batch):
            if begin <= record.offset < end:
                when = header.max_timestamp if stamped else header.base_timestamp + record.time
                yield Committed(record.offset, when, record.rest, header)


def judged_batches(
    router: Router, at: TopicPartition, begin: int, end: int, by: Deadline
) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """All batches that reach into a span, and of each whether a reader of committed records sees it.

    Also markers, aborted ones, and those that a cleaner has emptied. Checksums are checked. Raises as `committed`.
    """
    for part in parts_of(router, at, UnreadSpan(begin, end), by):
        for header, batch, is_seen in judged(walk(part.records), part.aborted):
            if begin <= header.last_offset and header.base_offset < end:
                yield header, batch, is_seen
