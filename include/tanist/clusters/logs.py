"""Partition logs and producer ids, over our own wire: the port `Logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.names import TopicPartition
from tanist.ports.logs import LogEnds
from tanist.protocol.batch import split
from tanist.protocol.frames import FetchLimits, Isolation
from tanist.wire.clock import SystemClock
from tanist.wire.requests import End, fetch, init_producer_id, list_offsets, readable_ends
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import ProducerId
    from tanist.ports.clock import Clock, Deadline


_COMMITTED: Final = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
"""Up to the high watermark, aborted transactions included."""
_FETCH_BYTES: Final = 1 << 16
"""Of one partition: hundreds of markers. A batch that is larger comes whole."""


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

    def true_ends(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        return list_offsets(self._router, dict.fromkeys(partitions, End.LOG_END), by) if partitions else {}

    def only_control(
        self, spans: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, bool | TanistError]:
        left, answers = dict(spans), dict[TopicPartition, "bool | TanistError"]()
        while left:
            positions = {at: first for at, (first, _) in left.items()}
            for at, fetched in fetch(self._router, positions, by, _COMMITTED, _FETCH_BYTES).items():
                found = fetched if isinstance(fetched, TanistError) else _look(at, fetched.records, *left[at])
                if isinstance(found, int) and not isinstance(found, bool):
                    left[at] = (found, left[at][1])
                else:
                    answers[at] = found
                    del left[at]
        return answers

    def new_producer_id(self, by: Deadline) -> ProducerId:
        return init_producer_id(self._router, by)

    def close(self) -> None:
        self._router.close()


def _look(at: TopicPartition, records: memoryview, position: int, end: int) -> bool | int | TanistError:
    """Whether the span holds control batches alone; where to read on where it goes on behind these."""
    before = position
    try:
        for header, _ in split(records):
            if position >= end:
                break
            if not header.is_control or header.base_offset > position:  # what is not there any more proves nothing
                return False
            position = header.next_offset
    except TanistError as unreadable:
        return unreadable
    if position >= end:
        return True
    return position if position > before else CouldNotTell(f"{at}: nothing can be read yet at {position}")
