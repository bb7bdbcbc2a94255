"""Reads spans of logs as raw batches, and says when a span has been read: nothing else decides that.

The rule of the end. The caller names the end of a span, as a leader has reported it: the last stable offset for readers
of committed records, the high watermark for the others. What an answer has says how to continue:

- Batches: reading continues behind the last one, until that is the end of the span.
- None, and the log ends below the end of the span for such readers: an error, at once. A transaction is open there
  (TransactionStillOpen, with its producer as far as the leader tells), or a new leader does not know its high watermark
  yet (CouldNotTell): whoever asked may ask again, both are retriable.
- None, although the log reaches the end of the span: the broker has read all segments up to the end of its log and has
  found nothing (LocalLog.read), because a cleaner has removed the rest. It has also nothing while it does not know
  where in its files that end is (there too), and of a batch that is larger than what was asked for, if the same answer
  has others (KIP-74). So only `EMPTY_ANSWERS` in a row mean "cleaned", and only those that have nothing of any
  partition.
- Bytes without a whole batch, where that would mean "cleaned": CorruptBatch, a length is damaged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tanist.domain.errors import CorruptBatch, CouldNotTell, TanistError, TimedOut
from tanist.domain.names import iso_time
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import describe_producers, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")

EMPTY_ANSWERS: Final = 3
"""So many answers without a batch, one after the other: a cleaner has removed the rest of the span."""
HEADERS_BYTES: Final = 1 << 16
"""Of one partition, where headers are looked at: hundreds of markers. A batch that is larger comes whole."""
_FIRST_BYTES: Final = 16 << 10
"""Of the first answer; a first batch that is larger comes whole (KIP-74). It tells how large the others must be."""
_MOST_BYTES: Final = 1 << 20
_PAUSE_SECONDS: Final = 0.02
"""Before a span of which nothing came is asked for again."""


class TransactionStillOpen(CouldNotTell):
    name = "OPEN_TRANSACTION"
    operator_action = (
        "its producer ends it, or its broker does after the transaction's timeout; one that no coordinator knows stays "
        "open until `kafka-transactions.sh abort`, or at an old source `tanist failback abort-transactions`, ends it; "
        "then run the same command again"
    )


@dataclass(slots=True)
class UnreadSpan:
    """What is left to read of a log: [`position`, `end`). `empty`: answers without a batch, one after the other."""

    position: int
    end: int
    empty: int = 0

    @property
    def is_read(self) -> bool:
        return self.position >= self.end


class LogPart(NamedTuple):
    """What one answer has of a span: all batches from `begin` up to `until`, and what is behind its end.

    `aborted`: as in `FetchedPartition`. Where a cleaner has removed the rest there are no `records`.
    """

    begin: int
    until: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...] = ()


def read_on(
    router: Router, spans: Mapping[_P, UnreadSpan], by: Deadline, isolation: Isolation, size: int = HEADERS_BYTES
) -> Answers[_P, LogPart]:
    """What one request to each leader brings of spans that are not read yet; their positions move behind that.

    `size`: bytes of each partition. An error is of its partition alone: TransactionStillOpen, CouldNotTell, TimedOut,
    BrokerError, CorruptBatch, UnsupportedBatch. Waits `_PAUSE_SECONDS` if nothing came.

    Raises:
        Stopped: the router was interrupted.
    """
    if not by.left(time.monotonic()):
        return {
            at: TimedOut(f"{at} could not be read from offset {span.position} to {span.end} in time")
            for at, span in spans.items()
        }
    limits = FetchLimits(max_wait_ms=0, isolation=isolation)
    answers = fetch(router, {at: span.position for at, span in spans.items()}, by, limits, size)
    parts = {at: _part(at, answer, spans[at], isolation) for at, answer in answers.items()}
    if not any(isinstance(part, LogPart) and part.until > part.begin for part in parts.values()):
        parts = {at: _nothing(at, part, spans[at]) for at, part in parts.items()}
        if any(isinstance(part, LogPart) and part.until == part.begin for part in parts.values()):
            router.pause(_PAUSE_SECONDS, by)
    for at, part in parts.items():
        if isinstance(part, LogPart) and part.until > part.begin:
            spans[at].position, spans[at].empty = part.until, 0
    return _with_producers(router, parts, by)


def _with_producers(router: Router, parts: Answers[_P, LogPart], by: Deadline) -> Answers[_P, LogPart]:
    """`parts`; of a transaction that is open its producer is named, if the leader tells it."""
    still_open = {at: part for at, part in parts.items() if isinstance(part, TransactionStillOpen)}
    if not still_open:
        return parts
    producers = describe_producers(router, still_open, by)
    named = {at: TransactionStillOpen(f"{why.reason}{_whose(producers[at])}") for at, why in still_open.items()}
    return {at: named.get(at, part) for at, part in parts.items()}


def _whose(found: tuple[ActiveProducer, ...] | TanistError) -> str:
    writing = [] if isinstance(found, TanistError) else [each for each in found if each.transaction_start >= 0]
    first = min(writing, key=lambda each: each.transaction_start, default=None)
    if first is None:
        return ""
    return f", of producer id {first.producer_id}, which has written last at {iso_time(first.last_timestamp)}"


def _part(
    at: TopicPartition, answer: FetchedPartition | TanistError, span: UnreadSpan, isolation: Isolation
) -> LogPart | TanistError:
    """What the answer has of a span, before an empty one is judged."""
    if isinstance(answer, TanistError):
        return answer
    try:
        until = max((header.next_offset for header, _ in split(answer.records)), default=span.position)
    except TanistError as unreadable:
        return unreadable
    log_end = answer.last_stable_offset if isolation is Isolation.READ_COMMITTED else answer.high_watermark
    if until <= span.position and log_end < span.end:
        ends = f"{at} ends at offset {log_end} for readers, not at {span.end}"
        if isolation is Isolation.READ_COMMITTED and log_end < answer.high_watermark:
            return TransactionStillOpen(f"{ends}: a transaction is open there")
        return CouldNotTell(ends)
    return LogPart(span.position, max(until, span.position), answer.records, answer.aborted)


def _nothing(at: TopicPartition, part: LogPart | TanistError, span: UnreadSpan) -> LogPart | TanistError:
    """The same, of an answer that has nothing of any span: it is counted."""
    if isinstance(part, TanistError):
        return part
    span.empty += 1
    if span.empty < EMPTY_ANSWERS:
        return part
    if len(part.records):
        return CorruptBatch(f"{at}: {len(part.records)} bytes at offset {part.begin} are not a whole batch")
    return part._replace(until=span.end)


def parts_of(
    router: Router,
    at: TopicPartition,
    span: UnreadSpan,
    by: Deadline,
    isolation: Isolation = Isolation.READ_COMMITTED,
    first_bytes: int = _FIRST_BYTES,
) -> Iterator[LogPart]:
    """All that is left to read of a span of one log, in order, without what is empty.

    `first_bytes`: of the first answer; the others are as large as what is left needs.

    Raises:
        TransactionStillOpen, CouldNotTell: the log cannot be read up to its end. TimedOut.
        BrokerError, CorruptBatch, UnsupportedBatch.
    """
    size = first_bytes
    while not span.is_read:
        part = value(read_on(router, {at: span}, by, isolation, size)[at])
        if len(part.records) and part.until > part.begin:
            yield part
            left = span.end - span.position
            size = max(_FIRST_BYTES, min(_MOST_BYTES, len(part.records) * left // (part.until - part.begin)))
