"""Where the partitions of a topic begin and end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from tanist.clusters.admin import Admin
from tanist.clusters.librdkafka import Doing, cause, translate
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline

_AGAIN: Final = 0.2
_latest: Callable[[], OffsetSpec] = OffsetSpec.latest  # librdkafka's own annotations leave these out
_earliest: Callable[[], OffsetSpec] = OffsetSpec.earliest


class Bounds:
    """Of one topic. Thread-safe: callers share the answer to a question that was asked after they came."""

    def __init__(self, endpoint: Endpoint, topic: str, partitions: int) -> None:
        self._endpoint = endpoint
        self._admin = Admin(endpoint, "state")
        self._asked = [TopicPartition(topic, n) for n in range(partitions)]
        self._doing = Doing(f"find the end of topic {topic}", f"DESCRIBE on topic {topic}")
        self._changed = threading.Condition()
        self._started = self._finished = 0
        self._asking = False
        self._answer: Mapping[int, int] = {}

    def ends(self, by: Deadline) -> Mapping[int, int]:
        """Per partition, the offset behind the last committed record or marker; a moment without leader is waited out.

        Raises:
            TimedOut, Unreachable, AuthorizationFailed, UnknownTopicOrPartition (it was deleted).
        """
        with self._changed:
            wanted = self._started + 1
            while self._asking and self._finished < wanted:
                if not self._changed.wait(by.left(time.monotonic())):
                    raise TimedOut(f"{self._doing.what} of {self._endpoint.name}: no answer")
            if self._finished >= wanted:
                return self._answer
            self._asking = True
            self._started += 1
            number = self._started
        return self._ask(number, by)

    def starts(self, by: Deadline) -> Mapping[int, int]:
        """Per partition, the offset of the first record; raises as `ends`."""
        return self._list(_earliest, by)

    def close(self) -> None:
        self._admin.close()

    def _ask(self, number: int, by: Deadline) -> Mapping[int, int]:
        answer: Mapping[int, int] | None = None
        try:
            answer = self._list(_latest, by)
            return answer
        finally:
            with self._changed:
                self._asking = False
                if answer is not None:
                    self._finished, self._answer = number, answer
                self._changed.notify_all()

    def _list(self, which: Callable[[], OffsetSpec], by: Deadline) -> Mapping[int, int]:
        pause = threading.Event()
        while True:
            try:
                return self._list_once(which, by)
            except UnknownTopicOrPartition:  # it was deleted
                raise
            except TanistError as error:
                if not error.retriable or by.left(time.monotonic()) <= _AGAIN:
                    raise
            pause.wait(_AGAIN)

    def _list_once(self, which: Callable[[], OffsetSpec], by: Deadline) -> Mapping[int, int]:
        specs = {partition: which() for partition in self._asked}
        found = self._admin.calls(
            lambda client, left: client.list_offsets(
                specs, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=left
            ),
            by,
            self._doing,
        )
        offsets: dict[int, int] = {}
        for partition, outcome in found.items():
            if isinstance(outcome, KafkaException):
                raise translate(cause(outcome), self._doing, self._endpoint)
            offsets[partition.partition] = outcome.offset
        return offsets
