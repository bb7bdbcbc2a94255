"""One compacted topic from its beginning, in the order read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

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
"""For what is open while one command runs: it hears sooner of an end that lies behind a marker, and asks more often."""
LASTING_MS: Final = 100
_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
PASSING: Final = (
    TIMED_OUT
    | UNREACHABLE
    | {
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # librdkafka looks for a coordinator that this reader never needs
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Burst:
    """What one call has read. `positions`: per partition, the offset that is read next (also behind markers)."""

    records: tuple[StateRecord | Unreadable, ...]
    positions: Mapping[int, int]


class Tail:
    """Owned by one thread. Follows every partition, committed records only; survives restarts of brokers.

    `starts`: the log start of each partition. Asked for "the beginning", librdkafka looks it up partition by partition
    and takes half a second where it does not know the leader yet.

    `quiet_ms`: after this long without a record the brokers answer that there is none, which is how an end that lies
    behind a marker is found.
    """

    def __init__(self, endpoint: Endpoint, topic: str, starts: Mapping[int, int], quiet_ms: int = LASTING_MS) -> None:
        self._endpoint, self._topic = endpoint, topic
        self._witness = ConnectionErrorTracker(endpoint)
        self._doing = Operation(f"read topic {topic}", f"READ on topic {topic}")
        options = {
            "group_id": f"tanist-reader-{topic}",  # librdkafka wants one; it is never joined and nothing is committed
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            "isolation_level": "read_committed",
            "auto_offset_reset": "error",
            "fetch_wait_max_ms": quiet_ms,
            "fetch_queue_backoff_ms": 10,
            "check_crcs": True,
        }
        self._consumer = Consumer(configuration(endpoint, "state", self._witness, **options))
        self._consumer.assign([TopicPartition(topic, n, start) for n, start in starts.items()])

    def burst(self, seconds: float) -> Burst:
        """All that has arrived, waiting up to `seconds` for the first.

        Raises:
            AuthenticationFailed, AuthorizationFailed, UnknownTopicOrPartition, StateLogLost: it cannot go on.
        """
        first = self._consumer.consume(1, timeout=seconds)
        rest = self._consumer.consume(_MOST, timeout=0) if first else []
        if refusal := self._witness.login_error(self._doing):
            raise refusal
        records: list[StateRecord | Unreadable] = []
        positions: dict[int, int] = {}
        for message in (*first, *rest):
            self._take(message, records, positions)
        if positions:
            self._witness.alive()
        return Burst(tuple(records), positions)

    def likely_cause(self) -> TanistError | None:
        """Why nothing comes, if connections fail."""
        return self._witness.likely_cause(self._doing)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Message, records: list[StateRecord | Unreadable], positions: dict[int, int]) -> None:
        error = message.error()
        if error is None:
            positions[message.partition() or 0] = (message.offset() or 0) + 1
            records.append(decode(message.key() or b"", message.value()))
        elif error.code() == _EOF:
            positions[message.partition() or 0] = message.offset() or 0
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise StateLogLost(f"topic {self._topic} of {self._endpoint.name}: {error.str()}")
        elif error.code() not in PASSING and not error.retriable():
            raise translate(error, self._doing, self._endpoint)
