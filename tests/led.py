"""Topics that were created a moment ago."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tanist.domain.names import TopicPartition
from tanist.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from tanist.ports.clock import Deadline
    from tanist.wire.router import Router


def led(router: Router, name: str, partitions: int, by: Deadline) -> tuple[TopicPartition, ...]:
    """All partitions of a topic, once `router` knows their leaders, and they that they lead."""
    at = tuple(TopicPartition(name, n) for n in range(partitions))
    while True:
        router.refresh([name], by)
        found = router.topics()[name]
        if found.error is None and all(part.leader is not None for part in found.partitions):
            ends = list_offsets(router, dict.fromkeys(at, End.HIGH_WATERMARK), by)
            if all(isinstance(end, int) for end in ends.values()):
                return at
        assert by.left(time.monotonic()), found
        router.pause(0.05, by)
