"""Tombstones that the source's cleaner removed before they were copied (`domain.caught_up`), found by their keys.

A key that is alive in the copy and is not in the source's log at all was deleted there. Its lost tombstone was at an
offset that is a hole now and is not copied yet, so there is room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.names import SourceOffset
from tanist.kafka.protocol.batch import split, walk
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.protocol.record_proof import visible
from tanist.kafka.protocol.records_left import records_left
from tanist.kafka.protocol.refilling import DeletedKeys
from tanist.kafka.wire import requests
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import End

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.protocol.frames import FetchedPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

MOST_COMPARED: Final = 64 << 20
"""Bytes of both logs, as they are stored."""
MOST_RECORDS: Final = 2_000_000
"""Of both logs, copies at holes too: about 3 µs each, so some 6 s, for which the thread's other partitions wait."""
COMPARE_SECONDS: Final = 30.0
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
) -> DeletedKeys:
    """The keys that are alive in the copy and that the source's log does not have. `position`: copied up to here.

    Raises:
        NotCompared: also if they have more than MOST_COMPARED bytes or MOST_RECORDS, or there are more keys than holes
            to fill. TimedOut: they could not be read in time.
        TanistError: a log cannot be read.
    """
    source, destination = routers
    alive: dict[bytes, bool] = {}
    budget = _Budget()
    for fetched in _log(destination, at, ends.start, ends.end, by):
        budget.spend(fetched)
        for header, batch in walk(fetched.records):
            if not header.is_control:
                alive |= {
                    each.key: not each.is_tombstone
                    for each in records_left(header, batch)
                    if each.offset >= ends.start and each.has_key
                }
    gone = {key for key, lives in alive.items() if lives}
    ahead: list[int] = []
    room_from = max(position, ends.end)  # surplus offsets of the copy are no room
    earliest = value(requests.list_offsets(source, {at: End.EARLIEST}, by)[at])
    for fetched in _log(source, at, earliest, None, by):
        budget.spend(fetched)
        for header, batch in visible(fetched.records, fetched.aborted).batches:
            for each in records_left(header, batch):
                if each.has_key:  # a record without one is not of key b""
                    gone.discard(each.key)
                if each.offset >= room_from:
                    ahead.append(each.offset)
    holes = ahead[-1] + 1 - room_from - len(ahead) if ahead else 0
    if len(gone) > holes:
        raise NotCompared
    return DeletedKeys(tuple(sorted(gone)), ahead[-1] if ahead else 0)


class _Budget:
    """What may still be compared."""

    def __init__(self) -> None:
        self._bytes, self._records = MOST_COMPARED, MOST_RECORDS

    def spend(self, fetched: FetchedPartition) -> None:
        self._bytes -= len(fetched.records)
        self._records -= sum(header.record_count for header, _ in split(fetched.records))
        if self._bytes < 0 or self._records < 0:
            raise NotCompared


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
