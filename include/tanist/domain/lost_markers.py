"""What a mirror's own transaction means that a log has open although every transaction of its producer was ended.

A coordinator gives a new epoch when all markers of the last transaction are written. So what a leader still has open
of that producer id then has lost its marker, as after a power cut. The next marker of the producer id ends it, whatever
that one is for: so it must be the right one, before anything else is appended.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tanist.domain.fake_group import NO_PRODUCER
from tanist.domain.names import DestinationOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.fake_group import CopiedPosition


class LostMarker(StrEnum):
    """Which marker a mirror partition lacks."""

    NONE = "none"
    COMMIT = "commit"
    """Of the transaction that has committed the position."""
    ABORT = "abort"
    """Of a later one, which has committed nothing."""
    TRUNCATED = "truncated"
    """More is missing than a marker."""


class _ActiveProducer(Protocol):
    """A producer as a leader describes it."""

    @property
    def producer_id(self) -> int: ...
    @property
    def transaction_start(self) -> int: ...


def open_from(producers: Iterable[_ActiveProducer], producer_id: int) -> DestinationOffset | None:
    """Where the transaction begins that `producer_id` has open; None: it has none open."""
    starts = (each.transaction_start for each in producers if each.producer_id == producer_id)
    return next((DestinationOffset(start) for start in starts if start >= 0), None)


def lacks_marker(end: DestinationOffset, last: CopiedPosition | None) -> bool:
    """Whether a log ends just where the marker belongs of the transaction that has committed `last`."""
    return last is not None and last.producer_id == NO_PRODUCER and end == last.end - 1


def lost_marker(end: DestinationOffset, last: CopiedPosition | None, open_from: DestinationOffset | None) -> LostMarker:
    """What a log lacks that ends at `end`, in an epoch that has just begun.

    `last`: the committed position; None: there is none. `open_from`: where the transaction begins that the producer id
    of the mirror has open; None: it has none open.
    """
    lacks = lacks_marker(end, last)
    if open_from is None:
        return LostMarker.TRUNCATED if lacks else LostMarker.NONE
    if last is None or open_from >= last.end:
        return LostMarker.ABORT
    return LostMarker.COMMIT if lacks else LostMarker.TRUNCATED
