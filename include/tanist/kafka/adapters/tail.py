"""Compacted topics from their beginning, in the order read, by one consumer."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tanist.domain.errors import StateLogLost
from tanist.kafka.adapters.librdkafka import (
    TIMED_OUT,
    UNREACHABLE,
    ConnectionErrorTracker,
    Operation,
    configuration,
    translate,
)
from tanist.kafka.protocol.stored import Unreadable, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import TanistError
    from tanist.domain.state_record import StateRecord

_MOST: Final = 10_000
"""Messages of one burst."""
BRIEF_MS: Final = 20
"""For the time of one command: the end after a marker is detected sooner, at the cost of more requests."""
LASTING_MS: Final = 250
"""For a worker: three of its readers ask the destination as often as this while nothing happens."""
_LEADERS_SECONDS: Final = 1.0
_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
PASSING: Final = (
    TIMED_OUT
    | UNREACHABLE
    | {
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # librdkafka looks for a coordinator that this reader never needs
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(slots=True)
class Burst:
    """The records that one call has read of a topic.

    `positions`: per partition, the next offset to read (also after markers). `failure`: why reading cannot continue.
    """

    records: list[StateRecord | Unreadable] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    failure: TanistError | None = None


class Tail:
    """Owned by one thread. Follows every partition of topics, committed records only; survives restarts of brokers.

    `quiet_ms`: after this time without a record brokers answer that there is none, which shows an end after a
    marker.
    """

    def __init__(self, endpoint: Endpoint, quiet_ms: int = LASTING_MS) -> None:
        self._endpoint = endpoint
        self._errors = ConnectionErrorTracker(endpoint)
        self._assigned: dict[str, list[TopicPartition]] = {}
        options = {
            "group_id": "tanist-reader",  # librdkafka wants one; it is never joined and nothing is committed
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            "isolation_level": "read_committed",
            "auto_offset_reset": "error",
            "fetch_wait_max_ms": quiet_ms,
            "fetch_queue_backoff_ms": 10,
            "check_crcs": True,
        }
        self._consumer = Consumer(configuration(endpoint, "state", self._errors, **options))

    def add(self, topic: str, starts: Mapping[int, int]) -> None:
        """Follow `topic` too, from the start of each partition's log on.

        Asked for "the beginning", librdkafka looks it up partition by partition and takes half a second where it does
        not know the leader yet.
        """
        self._learn(topic)
        self._assigned[topic] = [TopicPartition(topic, n, start) for n, start in starts.items()]
        self._consumer.incremental_assign(self._assigned[topic])

    def _learn(self, topic: str) -> None:
        """Let the consumer know the leaders: of a topic that comes later it asks only once a second."""
        with contextlib.suppress(KafkaException):  # it asks again by itself
            self._consumer.list_topics(topic, timeout=_LEADERS_SECONDS)

    def remove(self, topic: str) -> None:
        """Follow `topic` no longer."""
        self._consumer.incremental_unassign(self._assigned.pop(topic))

    def burst(self, seconds: float) -> dict[str, Burst]:
        """All records received, by topic; waits up to `seconds` for the first.

        Raises:
            AuthenticationFailed: the login was refused.
        """
        first = self._consumer.consume(1, timeout=seconds)
        rest = self._consumer.consume(_MOST, timeout=0) if first else []
        if login_error := self._errors.login_error(_reading(*self._assigned)):
            raise login_error
        found: dict[str, Burst] = {}
        for message in (*first, *rest):
            if (topic := message.topic()) in self._assigned:
                self._take(topic, message, found.setdefault(topic, Burst()))
        if any(each.positions for each in found.values()):
            self._errors.alive()
        return found

    def likely_cause(self) -> TanistError | None:
        """The likely reason of missing records, if connections fail."""
        return self._errors.likely_cause(_reading(*self._assigned))

    def close(self) -> None:
        self._consumer.close()

    def _take(self, topic: str, message: Message, burst: Burst) -> None:
        error = message.error()
        if error is None:
            burst.positions[message.partition() or 0] = (message.offset() or 0) + 1
            burst.records.append(decode(message.key() or b"", message.value()))
        elif error.code() == _EOF:
            burst.positions[message.partition() or 0] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            burst.failure = StateLogLost(f"topic {topic} of {self._endpoint.name}: {error.str()}")
        elif error.code() not in PASSING and not error.retriable():
            burst.failure = translate(error, _reading(topic), self._endpoint)


def _reading(*topics: str) -> Operation:
    names = ", ".join(topics)
    return Operation(f"read topic {names}", f"READ on topic {names}")
