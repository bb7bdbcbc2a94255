"""The committed records of a span of a log, as they are stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CouldNotTell, TimedOut
from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.frames import FetchLimits
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_FIRST_BYTES: Final = 16 << 10
"""Of the first answer; a first batch that is larger comes whole (KIP-74). It tells how large the others must be."""
_MOST_BYTES: Final = 1 << 20
_EMPTY_ANSWERS: Final = 3
"""So many answers without a record, one after the other: nothing is left there."""


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
    """All batches of a span, and of each whether a reader of committed records sees it.

    Raises as `committed`.
    """
    empty, size = 0, _FIRST_BYTES
    while begin < end:
        if not by.left(time.monotonic()):
            raise TimedOut(f"{at} could not be read from offset {begin} to {end} in time")
        fetched = value(fetch(router, {at: begin}, by, FetchLimits(max_wait_ms=0), size)[at])
        found = list(judged(walk(fetched.records), fetched.aborted))
        yield from (each for each in found if each[0].base_offset < end)
        until = found[-1][0].next_offset if found else begin
        if until <= begin:
            if fetched.last_stable_offset < end:
                raise CouldNotTell(f"{at} ends at offset {fetched.last_stable_offset} for readers, not at {end}")
            empty += 1
            if empty >= _EMPTY_ANSWERS:
                return  # a cleaner has taken the rest
            continue
        first = min(begin, found[0][0].base_offset)
        size = _next_size(len(fetched.records), until - first, end - until)
        begin, empty = until, 0


def _next_size(read: int, offsets: int, left: int) -> int:
    """Bytes to ask for, so that little is read behind the span: `read` bytes held `offsets`, and `left` are to come."""
    return max(_FIRST_BYTES, min(_MOST_BYTES, read * left // offsets))


def batches(
    router: Router, at: TopicPartition, begin: int, end: int, by: Deadline
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All batches of a span that is committed: also markers, aborted ones, and those that a cleaner has emptied.

    Raises as `committed`.
    """
    empty, size = 0, _FIRST_BYTES
    while begin < end:
        if not by.left(time.monotonic()):
            raise TimedOut(f"{at} could not be read from offset {begin} to {end} in time")
        fetched = value(fetch(router, {at: begin}, by, FetchLimits(max_wait_ms=0), size)[at])
        before = begin
        for header, batch in walk(fetched.records):
            if header.last_offset < before or header.base_offset >= end:
                continue
            begin = header.next_offset
            yield header, batch
        if begin > before:
            empty, size = 0, _next_size(len(fetched.records), begin - before, end - begin)
            continue
        if fetched.last_stable_offset < end:
            raise CouldNotTell(f"{at} ends at offset {fetched.last_stable_offset} for readers, not at {end}")
        empty += 1
        if empty >= _EMPTY_ANSWERS:
            return
