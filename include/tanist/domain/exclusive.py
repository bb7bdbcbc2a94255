"""Ranges of offsets that only one of two clusters can have, by the lineage of the topic: no record is missing there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.lineage import segments
from tanist.domain.names import DestinationOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.lineage import Segment, TopicLineage
    from tanist.domain.names import MirrorPartition
    from tanist.domain.offset_map import OffsetMap
    from tanist.domain.records import MirrorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveRange:
    """Offsets of one log, from `start` up to, not including, `until` (None: to its end).

    `at_source`: it is the source's log, and offsets are the source's; else the destination's. `reason`: for people.
    """

    partition: int
    at_source: bool
    start: int
    until: int | None
    reason: str


def exclusive_ranges(
    entries: Iterable[TopicLineage], at: MirrorPartition, spec: MirrorSpec, offsets: OffsetMap, *, promoted: bool
) -> Iterator[ExclusiveRange]:
    """Of one partition of a mirror. `promoted`: the topic has left the mirror, so the destination writes records.

    A reserve belongs to the cluster that was replaced: the source after a failover, the destination after a reversal.
    What a cluster writes that took over is the other's, too, as soon as it is copied: exclusive only while it is not.
    """
    found = segments(entries, at)
    for each in found:
        if each.reserved and each.cluster_id in {spec.source_cluster_id, spec.destination_cluster_id}:
            yield _reserve(each, spec, offsets)
    if found and promoted and not found[-1].reserved and found[-1].cluster_id == spec.destination_cluster_id:
        yield _own(found[-1], spec)


def _reserve(of: Segment, spec: MirrorSpec, offsets: OffsetMap) -> ExclusiveRange:
    at_source = of.cluster_id == spec.source_cluster_id
    start = offsets.origin(DestinationOffset(of.start)) if at_source else of.start
    until = None if of.end is None else start + of.end - of.start
    cluster = spec.source if at_source else spec.destination
    return ExclusiveRange(
        partition=of.partition.partition,
        at_source=at_source,
        start=start,
        until=until,
        reason=f"promotion {of.promotion_epoch} reserved these offsets for {cluster!r}: its records there were "
        "never copied",
    )


def _own(of: Segment, spec: MirrorSpec) -> ExclusiveRange:
    return ExclusiveRange(
        partition=of.partition.partition,
        at_source=False,
        start=of.start,
        until=of.end,
        reason=f"{spec.destination!r} took over in promotion {of.promotion_epoch}: its records are its own",
    )
