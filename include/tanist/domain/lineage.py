"""Lineage: which cluster wrote an offset of a partition, over any number of failovers and failbacks.

What the leader-epoch cache of a log is to the leaders of one cluster, lineage is to clusters. Each promotion divides
the offsets of a partition: below `old_ends` lie records of the old source; up to `reserve_ends` only the old source can
have records, which nobody copied; behind it lie records of the new primary, up to the next promotion.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored, stored_since

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence


@stored("lineage", "mirror", "topic", "promotion_epoch", policy=RecordPolicy(moves=True, stays=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLineage(MirrorRecord):
    """Where each partition of a topic passed from one cluster to the next at a promotion. Stored on both clusters.

    `promotion_epoch`: the count of that promotion. `old_ends`: where the records of the old source end in the mirror
    partition. `reserve_ends`: the end of the reserve, behind which the new primary's own records begin. Both are
    destination offsets, by partition; they are equal where nothing is reserved. `topic_id`: of the mirror topic.
    `fenced_in`: of mapped offsets, by partition the producer id and the epoch in which an empty transaction was ended
    there (`ProducerEpoch`).
    """

    mirror: MirrorName
    topic: str
    promotion_epoch: int
    old_cluster_id: str
    new_cluster_id: str
    old_ends: tuple[int, ...]
    reserve_ends: tuple[int, ...]
    topic_id: str = ""
    at: EpochMs
    mirror_id: str = ""
    fenced_in: tuple[tuple[int, int], ...] = field(default=(), metadata=stored_since(1))


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets from `start` up to, not including, `end` (None: the log goes on), and the cluster that wrote them.

    `promotion_epoch`: how many promotions there had been. `reserved`: nobody has copied what that cluster has here.
    """

    partition: MirrorPartition
    start: int
    end: int | None
    cluster_id: str
    promotion_epoch: int
    reserved: bool = False

    def holds(self, offset: int) -> bool:
        """Whether `offset` lies in it."""
        return self.start <= offset and (self.end is None or offset < self.end)


def reserves(entries: Iterable[TopicLineage], at: MirrorPartition) -> tuple[tuple[int, int], ...]:
    """The offsets of a partition, from the first up to the second, that promotions have reserved."""
    return tuple(
        (entry.old_ends[at.partition], entry.reserve_ends[at.partition])
        for entry in entries
        if at.partition < len(entry.old_ends) and entry.old_ends[at.partition] < entry.reserve_ends[at.partition]
    )


def segments(entries: Iterable[TopicLineage], at: MirrorPartition) -> tuple[Segment, ...]:
    """The segments of a partition, by offset; none if no promotion of it is recorded.

    `entries`: of its topic, in any order. A promotion from another cluster than the one before it led to began with a
    copy of its own, so what came before it is left out.
    """
    found: list[Segment] = []
    for entry in sorted(entries, key=lambda each: each.promotion_epoch):
        if entry.topic == at.topic and at.partition < len(entry.old_ends):
            found = [*_before(found, entry, at), *_of(entry, at)]
    return tuple(each for each in found if each.end is None or each.start < each.end)


def reserved_ranges(
    entries: Iterable[TopicLineage], at: MirrorPartition, clusters: Collection[str]
) -> tuple[tuple[int, int], ...]:
    """The offsets [start, end) that promotions between two clusters (ids) have reserved in a partition.

    There one of both logs may have a divergent tail, and the other one has gap markers.
    """
    found = {
        (entry.old_ends[at.partition], entry.reserve_ends[at.partition])
        for entry in entries
        if entry.topic == at.topic and at.partition < len(entry.old_ends)
        if {entry.old_cluster_id, entry.new_cluster_id} == set(clusters)
    }
    return tuple(sorted((start, end) for start, end in found if start < end))


def writer_of(segments: Sequence[Segment], offset: int) -> Segment | None:
    """The segment that holds `offset`; None: no promotion is recorded, or the offset is negative."""
    return next((each for each in segments if each.holds(offset)), None)


def _before(found: Sequence[Segment], entry: TopicLineage, at: MirrorPartition) -> Sequence[Segment]:
    """What comes before the reserve of `entry`: the last cluster's own offsets, which end now, and all earlier ones."""
    end = entry.old_ends[at.partition]
    if found and found[-1].cluster_id == entry.old_cluster_id:
        return [*found[:-1], replace(found[-1], end=end)]
    return [Segment(at, 0, end, entry.old_cluster_id, entry.promotion_epoch - 1)]


def _of(entry: TopicLineage, at: MirrorPartition) -> Iterator[Segment]:
    old_end, reserve_end = entry.old_ends[at.partition], entry.reserve_ends[at.partition]
    yield Segment(at, old_end, reserve_end, entry.old_cluster_id, entry.promotion_epoch, reserved=True)
    yield Segment(at, reserve_end, None, entry.new_cluster_id, entry.promotion_epoch)


def own_start(entries: Iterable[TopicLineage], at: MirrorPartition, cluster_id: str) -> int:
    """Where the own records of a cluster begin that was the last to take over; 0 if it was not."""
    last = segments(entries, at)[-1:]
    return last[0].start if last and last[0].cluster_id == cluster_id else 0


def primary_until(entries: Iterable[TopicLineage], at: MirrorPartition, cluster_id: str) -> int | None:
    """Where the offsets end that a cluster can have used before the last promotion led away from it.

    None: the last promotion of this partition did not lead away from it.
    """
    last = _last(entries, at)
    return None if last is None or last.old_cluster_id != cluster_id else last.reserve_ends[at.partition]


def copied_until(entries: Iterable[TopicLineage], at: MirrorPartition, cluster_id: str) -> int | None:
    """Where the copied records end in the log of the cluster that was the last to take over; behind them are its own.

    None: the last promotion of this partition did not lead to it.
    """
    last = _last(entries, at)
    return None if last is None or last.new_cluster_id != cluster_id else last.old_ends[at.partition]


def _last(entries: Iterable[TopicLineage], at: MirrorPartition) -> TopicLineage | None:
    """The last promotion of a topic, if the partition was there then."""
    own = (each for each in entries if each.topic == at.topic)
    last = max(own, key=lambda each: each.promotion_epoch, default=None)
    return None if last is None or at.partition >= len(last.old_ends) else last
