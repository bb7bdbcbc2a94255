"""Partition logs and producer ids, over our own wire: the port `Logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.ports.logs import LogEnds
from tanist.wire.clock import SystemClock
from tanist.wire.requests import init_producer_id, readable_ends
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import ProducerId, TopicPartition
    from tanist.ports.clock import Clock, Deadline


class KafkaLogs:
    """Owned by one thread."""

    def __init__(self, endpoint: Endpoint, clock: Clock | None = None) -> None:
        self._router = Router(endpoint, "tanist-logs")
        self._clock = clock or SystemClock()

    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]:
        found = readable_ends(self._router, partitions, by)
        now = self._clock.now()
        return {
            at: ends if isinstance(ends, TanistError) else LogEnds(**ends._asdict(), observed_at=now)
            for at, ends in found.items()
        }

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)

    def close(self) -> None:
        self._router.close()
