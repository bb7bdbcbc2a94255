"""Tombstones that the source's cleaner removed before they were copied (`domain.caught_up`), found by their keys.

A key that is alive in the copy and is not in the source's log at all was deleted there. Its lost tombstone was at an
offset that is a hole now and is not copied yet, so there is room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.names import SourceOffset
from tanist.kafka.protocol.batch import walk
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.protocol.record_proof import visible
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import TopicPartition
    from tanist.domain.recovery import CopyEnds
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

MOST_COMPARED: Final = 64 << 20
"""Bytes of both logs, as they are stored. Measured: about 3 µs a record, so 4 s at most for records of 100 B."""
COMPARE_SECONDS: Final = 60.0
_READ: Final = 4 << 20


class NotCompared(Exception):
    """The logs are larger than a worker reads while its other partitions wait, or were not read to their ends.

    Then no key is known to be deleted: one that was not read could be alive.
    """


def first_hole(position: SourceOffset, batches: Iterator[tuple[BatchHeader, memoryview]]) -> SourceOffset | None:
    """The first offset without a record that `batches`, fetched at `position`, show; None: there is none."""
    at: int = position
    for header, _ in batches:
        if header.next_offset <= at:
            continue
        if header.base_offset > at or not header.is_dense:
            return SourceOffset(at)
        at = header.next_offset
    return None


def deleted_keys(
    at: TopicPartition, routers: tuple[Router, Router], ends: CopyEnds, position: SourceOffset, by: Deadline
) -> tuple[bytes, ...]:
    """The keys that are alive in the copy and that the source's log does not have. `position`: copied up to here.

    Raises:
        NotCompared: also if they have more than MOST_COMPARED bytes, or there are more keys than holes to fill.
        TanistError: a log cannot be read.
    """
    source, destination = routers
    alive: dict[bytes, bool] = {}
    left = MOST_COMPARED
    for fetched in _log(destination, at, ends.start, ends.end, by):
        left = _spend(left, fetched)
        for header, batch in walk(fetched.records):
            if not header.is_control:
                alive |= {
                    each.key: not each.is_tombstone
                    for each in records_left(header, batch)
                    if each.offset >= ends.start and each.has_key
                }
    gone = {key for key, lives in alive.items() if lives}
    ahead: list[int] = []
    earliest = value(requests.list_offsets(source, {at: End.EARLIEST}, by)[at])
    for fetched in _log(source, at, earliest, None, by):
        left = _spend(left, fetched)
        for header, batch in visible(fetched.records, fetched.aborted).batches:
            for each in records_left(header, batch):
                gone.discard(each.key)
                if each.offset >= position:
                    ahead.append(each.offset)
    holes = ahead[-1] + 1 - position - len(ahead) if ahead else 0
    if len(gone) > holes:
        raise NotCompared
    return tuple(sorted(gone))


def _spend(left: int, fetched: FetchedPartition) -> int:
    left -= len(fetched.records)
    if left < 0:
        raise NotCompared
    return left


def _log(router: Router, at: TopicPartition, start: int, end: int | None, by: Deadline) -> Iterator[FetchedPartition]:
    """What a log has from `start` up to `end`, or up to where its last stable offset is now."""
    limits = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_COMMITTED)
    while end is None or start < end:
        fetched = value(requests.fetch(router, {at: start}, by, limits, _READ)[at])
        end = fetched.last_stable_offset if end is None else end
        yield fetched
        following = max((header.next_offset for header, _ in walk(fetched.records)), default=start)
        if following <= start < end:
            raise NotCompared
        start = following
