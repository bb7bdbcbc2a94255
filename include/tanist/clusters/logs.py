"""Partition logs and producer ids, over our own wire: the port `Logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.ports.logs import LogEnds
from tanist.wire.clock import SystemClock
from tanist.wire.requests import End, init_producer_id, list_offsets
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import EpochMs, ProducerId, TopicPartition
    from tanist.ports.clock import Clock, Deadline


class KafkaLogs:
    """Owned by one thread."""

    def __init__(self, endpoint: Endpoint, clock: Clock | None = None) -> None:
        self._router = Router(endpoint, "tanist-logs")
        self._clock = clock or SystemClock()

    def ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogEnds | TanistError]:
        # Asked in this order they can only grow: start <= last stable <= high watermark, whatever happens meanwhile.
        start = list_offsets(self._router, dict.fromkeys(partitions, End.EARLIEST), by)
        stable = list_offsets(self._router, dict.fromkeys(partitions, End.LAST_STABLE), by)
        high = list_offsets(self._router, dict.fromkeys(partitions, End.HIGH_WATERMARK), by)
        now = self._clock.now()
        return {at: _ends(start[at], stable[at], high[at], now) for at in partitions}

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)

    def close(self) -> None:
        self._router.close()


def _ends(
    start: int | TanistError, stable: int | TanistError, high: int | TanistError, now: EpochMs
) -> LogEnds | TanistError:
    if isinstance(start, TanistError):
        return start
    if isinstance(stable, TanistError):
        return stable
    if isinstance(high, TanistError):
        return high
    return LogEnds(start=start, last_stable=stable, high_watermark=high, observed_at=now)
