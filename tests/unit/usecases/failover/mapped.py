"""East mirrored to west with mapped offsets, in memory: a worker that copies in transactions, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tanist.domain.fake_group import CopiedPosition, copied_position, group_of
from tanist.domain.mapped_runs import appended, first_runs
from tanist.domain.names import DestinationOffset, MirrorPartition, ProducerId, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.promotions import copy_blocked_reason
from tanist.domain.records import OFFSETS_TOPIC, STATE_PARTITIONS, STATE_TOPIC, OffsetMode
from tanist.domain.state_record import state_partition_of
from tanist.domain.writer_identity import transactional_id_of
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from tanist.domain.names import TopicPartition
    from tanist.domain.writer_identity import ProducerEpoch
    from tanist.usecases.mirror import OpenMirror

NONE = ProducerId(-1)
MAPPED: dict[str, Any] = {
    "offsets": OffsetMode.MAPPED,
    "transactional_id": "tanist-dr/copy",
    "data_id": NONE,
    "marker_id": NONE,
    "start_id": NONE,
}


@dataclass
class MappedWorker:
    """Owns transactional ids from its last take-over on. It is a zombie once somebody else has begun since.

    `found`: where each record went, by its source offset, of committed transactions. `open`: what it has appended
    since. Each transaction is of one partition.
    """

    world: MappedWorld
    epochs: dict[str, ProducerEpoch] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    """The topics that were not to be copied when it read the state last."""
    open: dict[MirrorPartition, list[tuple[SourceOffset, DestinationOffset]]] = field(default_factory=dict)

    def take_over(self, at: MirrorPartition) -> None:
        """InitProducerId, and only then the state."""
        name = self.world.id_of(at)
        self.epochs[name] = self.world.west.begin(name)
        view, reported = self.world.view(), self.world.east.view(STATE_TOPIC)
        topics = self.world.topics
        self.blocked = {each for each in topics if copy_blocked_reason(view, reported, self.world.mirror, each)}

    def owns(self, at: MirrorPartition) -> bool:
        """Whether its coordinator takes anything from it."""
        name = self.world.id_of(at)
        return name in self.epochs and self.world.west.owners[name] == self.epochs[name]

    def append(self, at: MirrorPartition, count: int) -> bool:
        """Begin a transaction with records from the position on; False: it was refused, or the source has no more."""
        if not self.owns(at) or at.topic in self.blocked:
            return False
        west, name = self.world.west, self.world.id_of(at)
        begin = self.world.position(at).position
        todo = range(begin, min(begin + count, self.world.east.ends[at][1]))
        if not todo:
            return False
        west.owned.setdefault(name, set()).add(at)
        self.open[at] = []
        self.world.used[name] = self.epochs[name]
        return all(self.produce(at, SourceOffset(offset)) for offset in todo)

    def produce(self, at: MirrorPartition, offset: SourceOffset) -> bool:
        """A leader looks at nothing but the epoch."""
        epoch = self.epochs[self.world.id_of(at)]
        start, stable, high = self.world.west.ends[at]
        if not self.world.west.append(at, epoch.producer_id, epoch.epoch):
            return False
        self.world.west.ends[at] = (start, stable, high + 1)
        self.open.setdefault(at, []).append((offset, DestinationOffset(high)))
        return True

    def commit(self, at: MirrorPartition) -> bool:
        """End it with the position behind it."""
        name = self.world.id_of(at)
        if not self.owns(at) or at not in self.open:
            return False
        before, records = self.world.position(at), self.open.pop(at)
        self.world.west.end(name, self.epochs[name])
        end = DestinationOffset(self.world.west.ends[at][2])
        position = SourceOffset(records[-1][0] + 1)
        batch = OffsetRange(*records[0])
        runs = appended(before.runs, (batch, OffsetRange(position, end)))
        after = replace(before, position=position, end=end, count=before.count + 1, runs=runs)
        self.world.groups.commit(group_of(self.world.mirror), at, position, after.metadata)
        self.world.found[at] |= dict(records)
        return True


class MappedWorld(FailoverWorld):
    """`copier`: the worker that copies while time passes. `found`: where each record is in the copy, committed."""

    groups: MemoryGroups
    copier: MappedWorker
    found: dict[MirrorPartition, dict[SourceOffset, DestinationOffset]]
    used: dict[str, ProducerEpoch]

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"spec_fields": MAPPED, "held": (("compression.type", "gzip"),)} | more)

    def id_of(self, at: TopicPartition) -> str:
        """The transactional id in which a partition is copied."""
        return transactional_id_of(self.spec, state_partition_of(self.mirror, at, STATE_PARTITIONS))

    def position(self, at: MirrorPartition) -> CopiedPosition:
        """As it is committed; of a partition that nobody has copied, where copying begins."""
        now = self.groups.group(group_of(self.mirror)).now(at)
        start = SourceOffset(0)
        if now is None:
            begin = DestinationOffset(0)
            return CopiedPosition(start, self.spec.id, f"id-of-{at.topic}", begin, 0, first_runs(start, begin))
        return copied_position(at, now.offset, now.metadata, self.spec.id, f"id-of-{at.topic}")

    def tick(self) -> None:
        if not hasattr(self, "groups"):
            self.groups, self.copier = MemoryGroups(self.west), MappedWorker(self)
            self.used = {}
            self.found = {at: {} for at in self.partitions}
        super().tick()

    def _copy(self, at: MirrorPartition) -> None:
        """A fenced worker that has its lease still takes over, and reads the state then."""
        if self.east.dead:
            return
        if not self.copier.owns(at):
            self.copier.take_over(at)
        if self.copier.append(at, self.speed):
            self.copier.commit(at)

    def zombie(self, at: MirrorPartition) -> bool:
        """Whether an old owner gets a record in, or decides anything, before it asks for a new epoch, or after."""
        late = MappedWorker(self, epochs=dict(self.used))
        if late.produce(at, SourceOffset(99)) or late.owns(at):
            return True
        late.take_over(at)
        return late.append(at, 1)

    def clusters(self, user: str = "approver", *, approver: bool = True) -> OpenMirror:
        found = super().clusters(user, approver=approver)
        positions = replace(found.destination, positions=lambda mirror: MemoryPositions(self.groups, mirror))
        return replace(found, destination=positions)

    def published(self) -> OffsetPolicy:
        """What the destination knows of the offsets, without the positions."""
        return OffsetPolicy.of(self.west.view(OFFSETS_TOPIC), self.spec)
