"""The whole of many partitions, read by an ordinary consumer that checks every CRC."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.traces import Headers, Place, Trace, Traces, digest
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer, Message

    from tanist.ports.clock import Clock, Deadline

_AT_ONCE: Final = 20_000
_WAIT_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 5.0
_PASSING: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001


class LogRecord(NamedTuple):
    """One record, to be shown to people."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @classmethod
    def of(cls, message: Message) -> LogRecord:
        """As a consumer was given it."""
        offset = message.offset()
        assert offset is not None  # noqa: S101 -- every message that a consumer is given has one
        return cls(offset, message.key(), message.value(), message.headers(), message.timestamp()[1])  # type: ignore[arg-type]

    def differs_in(self, other: LogRecord) -> str:
        """The names of the fields that differ."""
        return ", ".join(name for name in self._fields if getattr(self, name) != getattr(other, name))


class ReadRecord(NamedTuple):
    """A record that a consumer was given."""

    offset: int
    digest: int

    @classmethod
    def of(cls, message: Message) -> ReadRecord:
        """As `digest` sees it."""
        return cls(int(message.offset() or 0), message_digest(message))


def message_digest(message: Message) -> int:
    """64 bits of everything that it carries, see `digest`."""
    return digest(message.key(), message.value(), message.headers(), message.timestamp()[1])  # type: ignore[arg-type]


class LogExtent(NamedTuple):
    """Where a log begins and ends: the first offset, and the high watermark."""

    start: int
    end: int


def bounds(bootstrap: str, places: Iterable[Place], by: Deadline, clock: Clock) -> dict[Place, LogExtent]:
    """Log start and high watermark of each.

    An open transaction does not end the log earlier, as it does for a reader of committed records: whoever reads these
    waits until the transaction has ended, and does not miss what was committed behind its first record.

    Raises:
        TimedOut: a partition did not answer.
    """
    client = consumer(bootstrap, committed=False)
    try:
        return {place: _bounds(client, place, by, clock) for place in places}
    finally:
        client.close()


def _bounds(client: Consumer, place: Place, by: Deadline, clock: Clock) -> LogExtent:
    refusals: list[str] = []

    def ask() -> LogExtent | None:
        try:
            answer = client.get_watermark_offsets(TopicPartition(*place), timeout=_ASK_SECONDS)
        except KafkaException as refused:
            refusals.append(str(refused))
            return None
        found = cast("tuple[int, int] | None", answer)  # None: not in time, whatever the stubs say
        return LogExtent(*found) if found else None

    return until(ask, by, clock, lambda: f"{place} does not tell where it ends: {refusals[-1:]}", _WAIT_SECONDS)


def read(  # noqa: PLR0913 -- its options, named
    bootstrap: str,
    logs: Mapping[Place, LogExtent],
    *,
    committed: bool,
    by: Deadline,
    clock: Clock,
    progress: Callable[[int], None] = lambda _records: None,
    digest_of: Callable[[Message], int] = message_digest,
) -> Traces:
    """Every record in `logs`; `progress` hears how many there are so far. `digest_of`: what is kept of a record.

    Raises:
        TimedOut: some partitions were not read to their end.
        KafkaException: a record is damaged, or the log does not begin where it was said to.
    """
    client = consumer(bootstrap, committed=committed)
    try:
        return _LogReader(client, logs, digest_of).whole(by, clock, progress)
    finally:
        client.close()


class _LogReader:
    def __init__(self, client: Consumer, logs: Mapping[Place, LogExtent], digest_of: Callable[[Message], int]) -> None:
        self._client, self._digest_of = client, digest_of
        self.traces: Traces = {place: Trace(start=log.start, end=log.end) for place, log in logs.items()}
        self._adders = {place: (trace.offsets.append, trace.digests.append) for place, trace in self.traces.items()}
        self._open = {place for place, log in logs.items() if log.end > log.start}
        client.assign([TopicPartition(*place, log.start) for place, log in logs.items() if place in self._open])

    def whole(self, by: Deadline, clock: Clock, progress: Callable[[int], None]) -> Traces:
        records = 0
        while self._open:
            messages = self._client.consume(_AT_ONCE, _WAIT_SECONDS)
            for message in messages:
                self._take(message)
            if messages:
                records += len(messages)
                progress(records)
            if not by.left(clock.monotonic()):
                raise TimedOut(f"not read to the end: {', '.join(map(str, sorted(self._open)))}")
        return self.traces

    def _take(self, message: Message) -> None:
        problem = message.error()
        if problem is not None:
            self._note_problem(message, problem)
            return
        add_offset, add_digest = self._adders[message.topic(), message.partition()]  # type: ignore[index]
        add_offset(message.offset())  # type: ignore[arg-type]
        add_digest(self._digest_of(message))

    def _note_problem(self, message: Message, problem: KafkaError) -> None:
        if problem.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._open.discard(Place.of(message))
        elif problem.code() not in _PASSING and not problem.retriable():
            raise KafkaException(problem)


def record_at(bootstrap: str, place: Place, offset: int, by: Deadline, clock: Clock) -> LogRecord | None:
    """The record at `offset`; None: there is none that a reader would see.

    Raises:
        TimedOut.
    """
    client = consumer(bootstrap)
    try:
        client.assign([TopicPartition(*place, offset)])
        while by.left(clock.monotonic()):
            for message in client.consume(1, _WAIT_SECONDS):
                problem = message.error()
                if problem is None:
                    return LogRecord.of(message) if message.offset() == offset else None
                if problem.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return None
        raise TimedOut(f"{place} did not serve offset {offset}")
    finally:
        client.close()


def next_record(trace: Trace, position: int) -> ReadRecord | None:
    """The first record at or after `position`, if there is one."""
    index = bisect_left(trace.offsets, position)
    return ReadRecord(trace.offsets[index], trace.digests[index]) if index < len(trace.offsets) else None
