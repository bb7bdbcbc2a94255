"""Start and end offsets of the partitions of a topic, over `kafka.wire`.

Not over librdkafka: after a restart of a broker its AdminClient keeps sending the old leader epoch, and gets
FENCED_LEADER_EPOCH for half a minute.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, TanistError, TimedOut
from tanist.domain.names import TopicPartition
from tanist.kafka.wire.requests import End, list_offsets
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.kafka.wire.router import Router

_P = TypeVar("_P", bound="TopicPartition")

_AGAIN: Final = 0.1
_BELIEVED: Final = 3.0
"""Seconds until UNKNOWN_TOPIC is final: brokers learn of a new topic at different times."""


class LogBoundsReader:
    """Of one topic. Thread-safe: concurrent callers share the answer to a request that was sent after their call."""

    def __init__(self, router: Router, topic: str, partitions: int) -> None:
        """`router`: no other thread may use it during a call."""
        self.topic, self.endpoint = topic, router.endpoint
        self._what = f"topic {topic} of {router.endpoint.name}"
        self._router = router
        self._partitions = tuple(TopicPartition(topic, n) for n in range(partitions))
        self._changed = threading.Condition()
        self._turn = threading.Lock()  # the router belongs to one thread at a time
        self._started = self._finished = 0
        self._asking = False
        self._answer: Mapping[int, int] = {}

    def starts(self, by: Deadline) -> Mapping[int, int]:
        """Per partition, the offset of the first record; raises as `ends`."""
        return self._ask(End.EARLIEST, by)

    def ends(self, by: Deadline) -> Mapping[int, int]:
        """Per partition, the offset after the last committed record or marker; waits while a partition has no leader.

        Raises:
            TimedOut, Unreachable, AuthorizationFailed; UnknownTopicOrPartition: the topic was deleted.
        """
        with self._changed:
            wanted = self._started + 1
            while self._asking and self._finished < wanted:
                if not self._changed.wait(by.left(time.monotonic())):
                    raise TimedOut(f"{self._what}: its end offsets are unknown")
            if self._finished >= wanted:
                return self._answer
            self._asking = True
            self._started += 1
            number = self._started
        return self._ask_for_all(number, by)

    def close(self) -> None:
        """Close the router, if this reader is its only user; callers that wait get Stopped."""
        self._router.interrupt()
        with self._turn:
            self._router.close()

    def _ask_for_all(self, number: int, by: Deadline) -> Mapping[int, int]:
        answer: Mapping[int, int] | None = None
        try:
            answer = self._ask(End.LAST_STABLE, by)
            return answer
        finally:
            with self._changed:
                self._asking = False
                if answer is not None:
                    self._finished, self._answer = number, answer
                self._changed.notify_all()

    def _ask(self, which: End, by: Deadline) -> Mapping[int, int]:
        believed = time.monotonic() + _BELIEVED
        with self._turn:
            while True:
                try:
                    return self._ask_once(which, by)
                except UnknownTopicOrPartition:  # it was deleted; or this broker has not heard of it yet
                    if time.monotonic() >= believed or by.left(time.monotonic()) <= _AGAIN:
                        raise
                except TopicAuthorizationFailed as refused:
                    raise AuthorizationFailed(f"{self._what} needs DESCRIBE: {refused.reason}") from refused
                except TanistError as error:
                    if not error.retriable or by.left(time.monotonic()) <= _AGAIN:
                        raise
                self._router.pause(_AGAIN, by)

    def _ask_once(self, which: End, by: Deadline) -> Mapping[int, int]:
        offsets: dict[int, int] = {}
        for at, offset in list_offsets(self._router, dict.fromkeys(self._partitions, which), by).items():
            if isinstance(offset, TanistError):
                raise offset
            offsets[at.partition] = offset
        return offsets


_PAUSE_SECONDS: Final = 0.02


def settled_ends(router: Router, partitions: Iterable[_P], by: Deadline) -> dict[_P, int | TanistError]:
    """The end of each log once everything in it is committed. The high watermark is read before the end."""
    pending, found = list(partitions), dict[_P, "int | TanistError"]()
    now = time.monotonic()
    by = Deadline(now + by.left(now) / 3)  # those that answer do not wait for the others for ever
    while pending:
        try:
            marks = list_offsets(router, dict.fromkeys(pending, End.HIGH_WATERMARK), by)
            ends = list_offsets(router, dict.fromkeys(pending, End.LOG_END), by)
        except TimedOut as late:
            return dict.fromkeys(pending, late) | found
        found |= {at: _settled(at, marks[at], ends[at]) for at in pending}
        pending = [at for at in pending if isinstance(error := found[at], TanistError) and error.retriable]
        if pending:
            router.pause(_PAUSE_SECONDS, by)
    return found


def _settled(at: TopicPartition, mark: int | TanistError, end: int | TanistError) -> int | TanistError:
    if isinstance(mark, TanistError):
        return mark
    if isinstance(end, TanistError):
        return end
    return end if mark == end else TimedOut(f"{at}: committed up to {mark}, the leader's log ends at {end}")
