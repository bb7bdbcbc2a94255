"""The last record of a partition, read with librdkafka, which decompresses every codec."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as At

from tanist.domain.errors import TimedOut
from tanist.domain.log_ends import Span
from tanist.domain.names import TopicPartition
from tanist.kafka.adapters.librdkafka import ConnectionErrorTracker, Operation, configuration, translate
from tanist.kafka.adapters.tail import PASSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")

_FIRST_WINDOW: Final = 256
_WIDER: Final = 16
_TICK: Final = 0.2
_MOST: Final = 10_000
_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_DOING: Final = Operation("read the last record", "READ on the topic")


class Last(NamedTuple):
    """A committed record with a key."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def last_records(
    endpoint: Endpoint,
    spans: Mapping[_P, Span[int]],
    by: Deadline,
    wanted: Callable[[_P, Message], bool] = lambda _at, message: message.key() is not None,
) -> dict[_P, Last | None]:
    """The last record that is `wanted` in each span; None: there is none.

    The end may have markers only, so reading starts near the end and then further back each time.

    Raises:
        TimedOut: not every span could be read. AuthorizationFailed, BrokerError: of any partition.
    """
    found: dict[_P, Last | None] = {}
    left = {at: span for at, span in spans.items() if span.start < span.end}
    found |= {at: None for at in spans if at not in left}
    window = _FIRST_WINDOW
    while left:
        read = _read(endpoint, {at: Span(max(s.start, s.end - window), s.end) for at, s in left.items()}, by, wanted)
        found |= read
        left = {at: span for at, span in left.items() if read[at] is None and span.end - window > span.start}
        window *= _WIDER
    return found


def _read(
    endpoint: Endpoint,
    spans: Mapping[_P, Span[int]],
    by: Deadline,
    wanted: Callable[[_P, Message], bool],
) -> dict[_P, Last | None]:
    errors = ConnectionErrorTracker(endpoint)
    options = {
        "group_id": "tanist-last-records",  # librdkafka wants one; it is never joined and nothing is committed
        "enable_auto_commit": False,
        "enable_partition_eof": True,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "fetch_wait_max_ms": 20,
        "check_crcs": True,
    }
    found: dict[_P, Last | None] = dict.fromkeys(spans)
    pending = set(spans)
    with closing(Consumer(configuration(endpoint, "last", errors, **options))) as consumer:
        consumer.assign([At(at.topic, at.partition, span.start) for at, span in spans.items()])
        while pending:
            if by.left(time.monotonic()) <= 0:
                raise errors.likely_cause(_DOING) or TimedOut(f"the last records of {len(pending)} partition(s)")
            for message in consumer.consume(_MOST, timeout=min(_TICK, by.left(time.monotonic()))):
                # equal to the one that was asked for, of whichever side
                at = cast("_P", TopicPartition(message.topic() or "", message.partition() or 0))
                if _passes(message, endpoint):
                    continue
                if _ended(message, spans[at].end):
                    pending.discard(at)
                if message.error() is None and (message.offset() or 0) < spans[at].end and wanted(at, message):
                    found[at] = _last(message)
            if login_error := errors.login_error(_DOING):
                raise login_error
    return found


def _passes(message: Message, endpoint: Endpoint) -> bool:
    """Whether the error is temporary; otherwise raises it."""
    error = message.error()
    if error is None or error.code() == _EOF:
        return False
    if error.code() in PASSING or error.retriable():
        return True
    raise translate(error, _DOING, endpoint)


def _ended(message: Message, end: int) -> bool:
    """Whether nothing that is wanted can follow."""
    return message.error() is not None or (message.offset() or 0) >= end - 1


def _last(message: Message) -> Last:
    found: Any = message.headers() or ()
    headers = tuple((each[0], each[1]) for each in found)
    return Last(message.offset() or 0, message.key() or b"", message.value(), headers)
