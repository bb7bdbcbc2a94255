"""A mirror with mapped offsets in memory: what its worker has committed and published is what a test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.fake_group import CopiedPosition, group_of
from tanist.domain.mapped_runs import OffsetRangesWritten, encoded
from tanist.domain.names import DestinationOffset, ProducerId, SourceOffset, TopicPartition
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, OffsetMode
from tanist.domain.translation import Proof
from tanist.ports.positions import ProofResult
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.offset_policy import offset_policy
from tests.builders import AT, DR, a_mirror, a_partition, a_topic
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster, ClusterPair
    from tanist.ports.positions import Pair

TOPIC_ID: Final = "id-of-orders"
RUNS: Final = tuple(
    OffsetRange(SourceOffset(source), DestinationOffset(destination))
    for source, destination in ((0, 0), (10, 11), (20, 23), (30, 34))
)
"""Three transactions of ten records, a marker behind each; an aborted record before the third."""
SPEC: Final = a_mirror(
    mirror_id="m-1",
    source_cluster_id="id-east",
    destination_cluster_id="id-west",
    offsets=OffsetMode.MAPPED,
    transactional_id="tanist-dr-m",
    data_id=ProducerId(-1),
    marker_id=ProducerId(-1),
    start_id=ProducerId(-1),
)


class Same:
    """The port `Proofs`: all records are the same. `asked`: of what."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        self.asked += [(pair.source, pair.destination) for pair in pairs]
        return dict.fromkeys(pairs, ProofResult(Proof.MATCH, "the same record"))


@dataclass
class MappedMirror:
    """Of `orders`, one partition with 40 records at the source; the copy is as `copy` has made it."""

    east: GuardedCluster = field(default_factory=lambda: GuardedCluster("east").with_topic("orders", 1, 40))
    west: GuardedCluster = field(default_factory=lambda: GuardedCluster("west"))
    pair: ClusterPair = field(default_factory=pair_with)

    def __post_init__(self) -> None:
        self.groups, self.source_groups = self.west.consumer_groups, self.east.consumer_groups
        self.west.with_topic(STATE_TOPIC).with_topic(OFFSETS_TOPIC).with_topic(GROUPS_TOPIC).with_topic("orders")
        topic = a_topic(source_topic_id=TOPIC_ID, mirror_id=SPEC.mirror_id)
        self.west.write(STATE_TOPIC, SPEC, topic, a_partition(mirror_id=SPEC.mirror_id))

    def copy(self, runs: Sequence[OffsetRange] = RUNS, published: int = 0) -> None:
        """The copy ends where the last of `runs` begins; the first ones are in `__mirror_offsets`, no longer beside it.

        An aborted attempt has left two records more.
        """
        last = runs[-1]
        self.west.grow(AT, last.destination + 2 - self.west.ends[AT][2])
        self.publish(runs[:published])
        self.commit(last.source, self.proof(last, runs[max(0, published - 1) :]).metadata)

    def publish(self, runs: Sequence[OffsetRange]) -> None:
        """One piece of the map."""
        if runs:
            piece = OffsetRangesWritten(mirror=DR, partition=AT, source=runs[0].source, ranges=encoded(runs))
            self.west.write(OFFSETS_TOPIC, piece)

    def commit(self, offset: int, metadata: str) -> None:
        """A position of the mirror itself."""
        self.groups.commit(group_of(DR), TopicPartition(*AT), offset, metadata)

    def proof(self, last: OffsetRange, runs: Sequence[OffsetRange], **others: str) -> CopiedPosition:
        """Of this mirror and this topic, unless `others` says otherwise."""
        ids = {"mirror_id": SPEC.mirror_id, "source_topic_id": TOPIC_ID} | others
        mirror_id, source_topic_id = ids.pop("mirror_id"), ids.pop("source_topic_id")
        assert not ids
        return CopiedPosition(last.source, mirror_id, source_topic_id, last.destination, 1, tuple(runs))

    def state(self) -> StateView:
        """What is on record."""
        return self.west.view(STATE_TOPIC)

    def map_now(self) -> OffsetMap:
        """Of the partition, as it is read from the destination."""
        by, stored = self.west.clock.deadline(10), self.west.view(OFFSETS_TOPIC)
        return offset_policy(SPEC, self.destination(), self.state(), stored, by).map_of(AT)

    def destination(self) -> Cluster:
        """Where the copy is."""
        return self.west.side()

    def clusters(self) -> OpenMirror:
        """Both of them."""
        return OpenMirror(
            spec=SPEC, source=self.east.side(), destination=self.destination(), pair=self.pair, from_source=nowhere
        )
