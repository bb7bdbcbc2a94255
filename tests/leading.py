"""Topics that were created a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


def leads(router: Router, name: str, partitions: int, by: Deadline) -> bool:
    """Whether `router` knows the leaders of all partitions of a topic, and they that they lead."""
    router.refresh([name], by)
    found = router.topics()[name]
    if found.error is not None or len(found.partitions) != partitions:
        return False
    if any(part.leader is None for part in found.partitions):
        return False
    at = [MirrorPartition(name, n) for n in range(partitions)]
    answers = list_offsets(router, dict.fromkeys(at, End.HIGH_WATERMARK), by)
    return not any(isinstance(answer, TanistError) for answer in answers.values())
