"""Raw batches of one partition, from one offset to another, over our own wire. No Spark here."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import BrokerError, CorruptBatch, Stopped, TanistError, TimedOut, TopicReplaced
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import FetchLimits, FetchPosition, Isolation
from tanist.kafka.protocol.record_proof import judged
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Fetches
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.names import BrokerId
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.spark.spans import LogSpan

FETCH_BYTES: Final = 4 << 20
PATIENCE_SECONDS: Final = 30.0
"""Without a single batch: a leader moves, a broker comes back."""
ANSWER_SECONDS: Final = 5.0
GONE_SECONDS: Final = 2.0
"""A topic that no broker has known for so long was deleted; a broker that has just started may not know it yet."""
_PAUSE_SECONDS: Final = 0.2
_LIMITS: Final = FetchLimits(max_wait_ms=200, max_bytes=FETCH_BYTES)
_UNDECIDED: Final = FetchLimits(max_wait_ms=200, max_bytes=FETCH_BYTES, isolation=Isolation.READ_UNCOMMITTED)


class Read(NamedTuple):
    """`seen`: by a reader of committed records, or, of what is undecided, by any.

    The batch's memory is used again by the next answer.
    """

    header: BatchHeader
    batch: memoryview
    seen: bool


class _Fetching:
    """One partition's leader, found again when it moves."""

    def __init__(self, router: Router, span: LogSpan) -> None:
        self._router, self._span = router, span
        self._limits = _UNDECIDED if span.undecided else _LIMITS
        self._buffer = ReceiveBuffer()
        self._fetches: Fetches | None = None
        self._lost = False

    def post(self, position: int, by: Deadline) -> None:
        at = self._span.partition
        if self._fetches is None:
            self._fetches = Fetches(self._router.connection(self._leader(by), by, channel="fetch"))
        self._fetches.post([FetchPosition(at.topic, at.partition, position, FETCH_BYTES)], self._limits, by)

    def _leader(self, by: Deadline) -> BrokerId:
        """Who is known to lead; looked up if nobody is, or whoever did has failed."""
        at = self._span.partition
        if not self._lost:
            with suppress(BrokerError):
                return self._router.leader(at)
        self._router.refresh([at.topic], by)
        return self._router.leader(at)

    def receive(self, by: Deadline) -> FetchedPartition:
        assert self._fetches is not None  # noqa: S101  # `post` has said so
        whole = self._fetches.receive(self._buffer, by)
        if not whole.looked:
            raise TimedOut(f"reading {self._span.partition}: the broker throttles this client")
        (answer,) = whole.partitions
        if answer.error_code != NONE:
            raise error_for(answer.error_code, f"reading {self._span.partition}")
        return answer

    def lose(self) -> None:
        """Whoever leads now is looked up before the next post."""
        self._lost = True
        if self._fetches is not None:
            self._fetches.connection.close()
            self._fetches = None


def read(router: Router, span: LogSpan, patience: float = PATIENCE_SECONDS) -> Iterator[list[Read]]:
    """The batches of `span`, one fetch answer at a time; the next one is asked for before this one is looked at.

    Ends by position: the last offset may hold nothing.

    Raises:
        TimedOut: no batch for `patience` seconds; says what was in the way.
        OffsetOutOfRange: the log start moved past what was to be read next.
        TopicReplaced: the topic that was meant was deleted; found out at the first answer without a batch.
        CorruptBatch, UnsupportedBatch: what lies there is no batch of format 2.
    """
    fetching, topic = _Fetching(router, span), _Topic(router, span)
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
            topic.check()
            _wait(router, trouble, span, position, by)
            continue
        found = [Read(*each) for each in judged(split(answer.records), answer.aborted)]
        if not found:
            topic.check()
            _check_empty(answer, span, position, by)
            continue
        position, by = found[-1].header.next_offset, _soon(patience)
        if position < span.until:
            posted = _post_ahead(fetching, position, by)
        yield [each for each in found if _belongs(each.header, span)]


class _Topic:
    """Whether the topic that is read is still the one that was meant."""

    def __init__(self, router: Router, span: LogSpan) -> None:
        self._router, self._span = router, span
        self._gone_by: Deadline | None = None

    def check(self) -> None:
        """Raises TopicReplaced. Brokers that do not answer are waited for elsewhere."""
        changed = changed_topics(self._router, [self._span], _soon(ANSWER_SECONDS))
        trouble = next((why for _, why in changed if isinstance(why, TopicReplaced)), None)
        if trouble is None:
            self._gone_by = None
            return
        self._gone_by = self._gone_by or _soon(GONE_SECONDS)
        created_again = self._router.topics()[self._span.partition.topic].error is None
        if created_again or not self._gone_by.left(time.monotonic()):
            raise trouble


def changed_topics(router: Router, spans: Sequence[LogSpan], by: Deadline) -> list[tuple[LogSpan, TanistError]]:
    """Which of the spans were of topics that are there no more, or that nobody answers for, and why."""
    meant = [span for span in spans if span.topic_id is not None]
    if not meant:
        return []
    try:
        router.refresh(sorted({span.partition.topic for span in meant}), by)
    except Stopped:
        raise
    except TanistError as silent:
        return [(span, silent) for span in meant]
    return [(span, changed) for span in meant if (changed := _changed(router, span)) is not None]


def _changed(router: Router, span: LogSpan) -> TopicReplaced | None:
    found = router.topics()[span.partition.topic]
    if isinstance(found.error, UnknownTopicOrPartition):
        return TopicReplaced(f"topic {found.name!r} was deleted while it was read")
    if found.topic_id in {None, span.topic_id}:
        return None
    return TopicReplaced(f"topic {found.name!r} was deleted and created again while it was read")


def _post_ahead(fetching: _Fetching, position: int, by: Deadline) -> bool:
    try:
        fetching.post(position, by)
    except Stopped:
        raise
    except TanistError:
        fetching.lose()
        return False
    return True


def _belongs(header: BatchHeader, span: LogSpan) -> bool:
    if header.base_offset >= span.until or header.last_offset < span.start:
        return False
    if not span.counts(header.base_offset, header.producer_id):
        return False
    return span.first or header.base_offset >= span.start


def _wait(router: Router, trouble: TanistError, span: LogSpan, position: int, by: Deadline) -> None:
    if not trouble.retriable:
        raise trouble
    if by.left(time.monotonic()) <= _PAUSE_SECONDS:
        raise TimedOut(f"{span.partition} at offset {position}: {trouble}") from trouble
    router.pause(_PAUSE_SECONDS, by)


def _check_empty(answer: FetchedPartition, span: LogSpan, position: int, by: Deadline) -> None:
    """Nothing came. More than nothing that is no whole batch will not become one."""
    if len(answer.records):
        raise CorruptBatch(f"{span.partition}: the batch at offset {position} has a corrupt length")
    if not by.left(time.monotonic()):
        seen = f"its stable offsets end at {answer.last_stable_offset}"
        raise TimedOut(f"{span.partition} at offset {position}: no data arrives before {span.until}; {seen}")


def _soon(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)
