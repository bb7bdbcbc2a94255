"""Raw batches of one partition, from one offset to another, over our own wire. No Spark here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CorruptBatch, Stopped, TanistError, TimedOut
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import FetchLimits, FetchPosition
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Fetches
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.spark.spans import Span

FETCH_BYTES: Final = 4 << 20
PATIENCE_SECONDS: Final = 30.0
"""Without a single batch: a leader moves, a broker comes back."""
_PAUSE_SECONDS: Final = 0.2
_LIMITS: Final = FetchLimits(max_wait_ms=200, max_bytes=FETCH_BYTES)


class Read(NamedTuple):
    """`seen`: by a reader of committed records. The batch's memory is used again by the next answer."""

    header: BatchHeader
    batch: memoryview
    seen: bool


class _Fetching:
    """One partition's leader, found again when it moves."""

    def __init__(self, router: Router, span: Span) -> None:
        self._router, self._span = router, span
        self._buffer = ReceiveBuffer()
        self._fetches: Fetches | None = None

    def post(self, position: int, by: Deadline) -> None:
        at = self._span.partition
        if self._fetches is None:
            self._router.refresh([at.topic], by)
            self._fetches = Fetches(self._router.connection(self._router.leader(at), by, channel="fetch"))
        self._fetches.post([FetchPosition(at.topic, at.partition, position, FETCH_BYTES)], _LIMITS, by)

    def receive(self, by: Deadline) -> FetchedPartition:
        assert self._fetches is not None  # noqa: S101  # `post` has said so
        (answer,) = self._fetches.receive(self._buffer, by).partitions
        if answer.error_code != NONE:
            raise error_for(answer.error_code, f"reading {self._span.partition}")
        return answer

    def lose(self) -> None:
        """Whoever leads now is looked up before the next post."""
        if self._fetches is not None:
            self._fetches.connection.close()
            self._fetches = None


def read(router: Router, span: Span, patience: float = PATIENCE_SECONDS) -> Iterator[list[Read]]:
    """The batches of `span`, one fetch answer at a time; the next one is asked for before this one is looked at.

    Ends by position: the last offset may hold nothing.

    Raises:
        TimedOut: no batch for `patience` seconds; says what was in the way.
        OffsetOutOfRange: the log start moved past what was to be read next.
        CorruptBatch, UnsupportedBatch: what lies there is no batch of format 2.
    """
    fetching = _Fetching(router, span)
    position, posted = span.start, False
    by = _soon(patience)
    while position < span.until:
        try:
            if not posted:
                fetching.post(position, _soon(patience))
            posted = False
            answer = fetching.receive(_soon(patience))
        except Stopped:
            raise
        except TanistError as trouble:
            fetching.lose()
            _wait(router, trouble, span, position, by)
            continue
        found = [Read(*each) for each in judged(split(answer.records), answer.aborted)]
        if not found:
            _check_empty(answer, span, position, by)
            continue
        position, by = found[-1].header.next_offset, _soon(patience)
        if position < span.until:
            posted = _post_ahead(fetching, position, by)
        yield [each for each in found if _belongs(each.header, span)]


def _post_ahead(fetching: _Fetching, position: int, by: Deadline) -> bool:
    try:
        fetching.post(position, by)
    except Stopped:
        raise
    except TanistError:
        fetching.lose()
        return False
    return True


def _belongs(header: BatchHeader, span: Span) -> bool:
    if header.base_offset >= span.until or header.last_offset < span.start:
        return False
    return span.first or header.base_offset >= span.start


def _wait(router: Router, trouble: TanistError, span: Span, position: int, by: Deadline) -> None:
    if not trouble.retriable:
        raise trouble
    if by.left(time.monotonic()) <= _PAUSE_SECONDS:
        raise TimedOut(f"{span.partition} at offset {position}: {trouble}") from trouble
    router.pause(_PAUSE_SECONDS, by)


def _check_empty(answer: FetchedPartition, span: Span, position: int, by: Deadline) -> None:
    """Nothing came. More than nothing that is no whole batch will not become one."""
    if len(answer.records):
        raise CorruptBatch(f"{span.partition}: the batch at offset {position} has a corrupt length")
    if not by.left(time.monotonic()):
        seen = f"its stable offsets end at {answer.last_stable_offset}"
        raise TimedOut(f"{span.partition} at offset {position}: no data arrives before {span.until}; {seen}")


def _soon(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)
