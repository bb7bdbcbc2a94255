"""Where in a log the records lie that a reader of committed records sees, from the headers of its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.anchors import PlacedRecords, Walked
from tanist.domain.names import DestinationOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.kafka.protocol.batch import BatchHeader


def walked(
    batches: Iterable[tuple[BatchHeader, memoryview, bool]], begin: DestinationOffset, end: DestinationOffset
) -> Walked:
    """What `batches` have from `begin` up to `end`; of each it is known whether such a reader sees it.

    A log without a cleaner has every offset: what no batch has, or a batch without a record for it, is a gap.
    """
    places: list[PlacedRecords] = []
    at, plain = begin, None
    for header, _, is_seen in batches:
        if header.base_offset > at or not (header.is_control or header.is_dense):
            return Walked(tuple(places), at, plain)
        first, at = at, DestinationOffset(min(end, header.next_offset))
        if not is_seen:
            continue
        if plain is None and not header.is_transactional:
            plain = first
        if places and places[-1].first + places[-1].records == first:
            places[-1] = PlacedRecords(places[-1].first, places[-1].records + at - first)
        else:
            places.append(PlacedRecords(first, at - first))
    return Walked(tuple(places), at if at < end else None, plain)
