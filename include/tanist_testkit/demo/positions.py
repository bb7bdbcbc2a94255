"""A consumer group that read half at the source and goes on at the copy, with the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import consumer
from tanist_testkit.verify.reading import LogExtent, LogRecord
from tanist_testkit.verify.traces import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer, Message

    from tanist.ports.clock import Clock, Deadline

_WAIT_SECONDS: Final = 0.2
_AT_ONCE: Final = 5000


@dataclass(frozen=True, slots=True)
class Carried:
    """Committed offsets, and the record that each side served next; none where no committed record follows."""

    committed: Mapping[Place, int]
    source_next: Mapping[Place, LogRecord]
    copy_next: Mapping[Place, LogRecord]

    @property
    def agreeing(self) -> int:
        """Partitions where the copy served exactly the record, at exactly the offset, that the source would have."""
        return sum(self.copy_next.get(place) == seen for place, seen in self.source_next.items())


def carry(group: str, source: str, copy: str, logs: Mapping[Place, LogExtent], by: Deadline, clock: Clock) -> Carried:
    """Read half of each log at `source` as `group`, commit; commit the same numbers at `copy`, and read on there.

    Raises:
        TimedOut. KafkaException: a commit was refused.
    """
    committed = _read_half(group, source, logs, by, clock)
    _commit(group, copy, committed)
    return Carried(committed, _next(group, source, committed, by, clock), _next(group, copy, committed, by, clock))


def _read_half(
    group: str, bootstrap: str, logs: Mapping[Place, LogExtent], by: Deadline, clock: Clock
) -> dict[Place, int]:
    """A log whose second half is empty or aborted is read to its end: no record there says that the half is over."""
    client = consumer(bootstrap, group=group)
    positions: dict[Place, int] = {}
    try:
        client.assign([TopicPartition(*place, log.start) for place, log in logs.items()])
        going_on = set(logs)
        while going_on:
            for message in client.consume(_AT_ONCE, _WAIT_SECONDS):
                place, offset = _place_of(message), int(message.offset() or 0)
                if _ended(message) or (message.error() is None and offset >= _middle(logs[place])):
                    going_on.discard(place)
                elif message.error() is None:
                    positions[place] = offset + 1
            _in_time(by, clock, "read half")
        _store(client, positions)
    finally:
        client.close()
    return positions


def _middle(log: LogExtent) -> int:
    return (log.start + log.end) // 2


def _place_of(message: Message) -> Place:
    return Place(str(message.topic()), int(message.partition() or 0))


def _ended(message: Message) -> bool:
    problem = message.error()
    return problem is not None and problem.code() == KafkaError._PARTITION_EOF  # noqa: SLF001


def _commit(group: str, bootstrap: str, positions: Mapping[Place, int]) -> None:
    client = consumer(bootstrap, group=group)
    try:
        _store(client, positions)
    finally:
        client.close()


def _store(client: Consumer, positions: Mapping[Place, int]) -> None:
    wanted = [TopicPartition(*place, offset) for place, offset in positions.items()]
    for reported in client.commit(offsets=wanted, asynchronous=False) or ():
        if reported.error is not None:
            raise KafkaException(reported.error)


def _next(
    group: str, bootstrap: str, places: Mapping[Place, int], by: Deadline, clock: Clock
) -> dict[Place, LogRecord]:
    """What `group` is served first, when it starts from what it has committed there."""
    client = consumer(bootstrap, group=group)
    found: dict[Place, LogRecord] = {}
    try:
        stored = client.committed([TopicPartition(*place) for place in places], timeout=by.left(clock.monotonic()))
        client.assign(stored)
        waiting = set(places)
        while waiting:
            for message in client.consume(_AT_ONCE, _WAIT_SECONDS):
                if message.error() is None:
                    found.setdefault(_place_of(message), LogRecord.of(message))
                if message.error() is None or _ended(message):
                    waiting.discard(_place_of(message))
            _in_time(by, clock, "read on")
    finally:
        client.close()
    return found


def _in_time(by: Deadline, clock: Clock, what: str) -> None:
    if not by.left(clock.monotonic()):
        raise TimedOut(f"a consumer group could not {what}")
