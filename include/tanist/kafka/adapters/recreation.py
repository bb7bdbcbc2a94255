"""Deletes topics by their id, and measures logs: the ports `TopicDeletion` and `LogSizes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicId, UnknownTopicOrPartition
from tanist.kafka.adapters.asking import Asking
from tanist.kafka.adapters.librdkafka import Operation
from tanist.kafka.wire.log_dirs import log_sizes
from tanist.kafka.wire.topics import delete_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class KafkaTopicDeletion:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router, self._asking = router, Asking(router)

    def delete(self, topic: str, topic_id: str, by: Deadline) -> TanistError | None:
        doing = Operation(f"delete topic {topic}", f"DELETE on topic {topic}")
        error = self._asking.change(lambda router, by: delete_topic(router, topic, topic_id, by), by, doing)
        if error is None or isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)):
            return None
        return self._asking.named(error, doing)


class KafkaLogSizes:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def sizes(self, partitions: Sequence[TopicPartition], by: Deadline) -> dict[TopicPartition, int]:
        return log_sizes(self._router, partitions, by) if partitions else {}
