"""Where logs end once everything in them is committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.names import TopicPartition
from tanist.kafka.wire.requests import End, list_offsets
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.kafka.wire.router import Router

_PAUSE_SECONDS: Final = 0.02


def settled_ends(
    router: Router, partitions: Iterable[TopicPartition], by: Deadline
) -> dict[TopicPartition, int | TanistError]:
    """The end of each log once everything in it is committed. The high watermark is read before the end."""
    pending, found = list(partitions), dict[TopicPartition, "int | TanistError"]()
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
