"""A mirror with mapped offsets in memory: a worker that copies in transactions, and what must hold after each row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.fake_group import CopiedPosition, copied_position, group_of
from tanist.domain.mapped_runs import extended, first_runs, moved
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.promotions import copy_blocked_reason
from tanist.domain.records import OffsetMode
from tanist.domain.state_record import state_partition_of
from tanist.domain.writer_identity import transactional_id_of
from tanist.domain.writers import transactional_writers
from tanist.ports.fencing import ProducerFence
from tests.explorer.place import DR, PARTITIONS, TOPICS, FencedProducer, Place
from tests.explorer.product import (
    OFFSETS_TOPIC,
    STATE_PARTITIONS,
    STATE_TOPIC,
    CommandContext,
    MemoryProducerFencing,
    MemoryStateStore,
    MirrorRequest,
    MirrorState,
    create,
)
from tests.explorer.worker import MOST_A_ROUND, Worker

if TYPE_CHECKING:
    from tanist.domain.names import TopicPartition
    from tanist.domain.writer_identity import ProducerEpoch
    from tests.explorer.product import MirrorPartition, MirrorSpec, StateView

ONCE: Final = "each record before the position is in the copy, once"
WHERE: Final = "the map says where each record is"
FENCED: Final = "nobody writes in a transaction behind its fence"


@dataclass
class MappedPlace(Place):
    """`copied`: where each record of the source is in the copy, committed."""

    copied: defaultdict[TopicPartition, dict[SourceOffset, DestinationOffset]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def make(self) -> None:
        self.west.consumer_groups = self.at_west
        run = CommandContext(clock=self.clock, by=self.clock.deadline(60))
        request = MirrorRequest(mirror=DR, include=tuple(TOPICS), offsets=OffsetMode.MAPPED)
        create(request, self.east.side(), self.west.side(), run)

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────

    def position(self, spec: MirrorSpec, at: MirrorPartition) -> CopiedPosition:
        """As it is committed; of a partition that nobody has copied, where copying begins."""
        topic = self.view().topic(DR, at.topic)
        source_id = topic.source_topic_id if topic is not None else ""
        now = self.at_west.group(group_of(DR)).now(at)
        if now is None:
            start, end = SourceOffset(0), DestinationOffset(0)
            return CopiedPosition(start, spec.id, source_id, end, 0, first_runs(start, end))
        return copied_position(at, now.offset, now.metadata, spec.id, source_id)

    def sealed(self, spec: MirrorSpec, at: MirrorPartition) -> bool:
        """As the product proves it, of what is really there."""
        writers = transactional_writers(self.view(), spec, [at])
        proof = MemoryProducerFencing(self.west).proof(writers, self.clock.deadline(0))[at]
        return proof is ProducerFence.FENCED

    def before(self, label: str, args: tuple[Any, ...]) -> None:
        super().before(label, args)
        spec = self.spec()
        if label == "producer_fencing.fence_transactional_ids" and spec is not None:
            for at in args[0]:
                key = (int(spec.data_id), at)
                until = int(self.position(spec, at).position)
                self.sealed_at.setdefault(key, FencedProducer(until, self.east.ends[at][2], self._reported_end(at), 0))

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, when: str) -> None:
        """After each row, and after each undo."""
        if (spec := self.spec()) is None:
            return
        for at in PARTITIONS:
            for rule, problem in self._problems(spec, at):
                self.violated(rule, f"{at}: {problem} ({when})")

    def row_done(self, _table: str, _what: str) -> None:
        """No row promises anything beyond that."""

    def _problems(self, spec: MirrorSpec, at: MirrorPartition) -> list[tuple[str, str]]:
        position, places = self.position(spec, at), self.copied[at]
        found: list[tuple[str, str]] = []
        if sorted(places) != list(range(position.position)):
            lacking = sorted({*range(position.position)} ^ places.keys())
            found.append((ONCE, f"offsets {lacking[:5]} of the source, and it is copied up to {position.position}"))
        if any(one >= other for one, other in pairwise(places[each] for each in sorted(places))):
            found.append((ONCE, "its records are not in their order"))
        policy = OffsetPolicy.of(MemoryStateStore(self.west, OFFSETS_TOPIC).view(), spec, {at: position})
        elsewhere = [offset for offset, there in places.items() if policy.in_copy(at, offset) != there]
        if elsewhere:
            found.append((WHERE, f"offsets {elsewhere[:5]} of the source"))
        return found

    def is_fenced(self, at: TopicPartition) -> bool:
        """Whether a failover of its topic has its fence on record, and the topic is in the mirror no more."""
        view, topic = self.view(), self.view().topic(DR, at.topic)
        if topic is None:
            return False
        return any(each.topic == at.topic and each.promotion_epoch > topic.promotion_epoch for each in view.lineage(DR))


@dataclass
class MappedWorker(Worker):
    """It owns transactional ids from its last take-over on, and is frozen or killed anywhere in a transaction."""

    epochs: dict[str, ProducerEpoch] = field(default_factory=dict)
    blocked: dict[str, frozenset[str]] = field(default_factory=dict)
    """By transactional id the topics that were not to be copied when the state was read behind the take-over."""

    def _copy(self, view: StateView) -> None:
        self.place.stage.point("worker.copy")
        now = MemoryStateStore(self._to, STATE_TOPIC).view().mirror(DR)
        if self._from.dead or self._to.dead:
            return
        for mine in self._owned(view):
            at, held = mine.partition, view.observed(mine.spec.mirror, mine.partition)
            copies = held is not None and held.state in {MirrorState.MIRRORING, MirrorState.PAUSING}
            if copies and now is not None and now.mirror_id == mine.spec.mirror_id and at in self._to.ends:
                self._transaction(mine.spec, at)

    def _transaction(self, spec: MirrorSpec, at: MirrorPartition) -> None:
        place = self.place
        assert isinstance(place, MappedPlace)
        name = transactional_id_of(spec, state_partition_of(DR, at, STATE_PARTITIONS))
        if name not in self.epochs or self._to.owners.get(name) != self.epochs[name]:
            self._take_over(name)
        if at.topic in self.blocked[name] or self._from.dead:
            return
        place.stage.point("worker.append")
        before = place.position(spec, at)
        records = range(before.position, min(before.position + MOST_A_ROUND, self._from.ends[at][1]))
        if not records or (appended := self._append(name, at, records)) is None:
            return
        place.stage.point("worker.commit")
        if self._to.owners.get(name) != self.epochs[name] or at not in self._to.owned.get(name, ()):
            return  # fenced, and what it has appended is aborted
        self._to.end(name, self.epochs[name])
        end, position = DestinationOffset(self._to.ends[at][2]), SourceOffset(records[-1] + 1)
        runs = extended(before.runs, OffsetRange(SourceOffset(records[0]), appended), len(records))
        runs = moved(runs, OffsetRange(position, end))
        after = replace(before, position=position, end=end, count=before.count + 1, runs=runs)
        place.at_west.commit(group_of(DR), at, position, after.metadata)
        for n, offset in enumerate(records):
            if offset in place.copied[at]:
                place.violated(ONCE, f"{at}: offset {offset} of the source is copied again")
            place.copied[at][SourceOffset(offset)] = DestinationOffset(appended + n)
        if place.is_fenced(at):
            place.violated(FENCED, f"{name} has committed {len(records)} record(s) in {at}")

    def _take_over(self, name: str) -> None:
        """InitProducerId, and only then the state of both clusters."""
        place = self.place
        place.stage.point("worker.begin")
        self.epochs[name] = self._to.begin(name)
        self.blocked[name] = frozenset(TOPICS)
        place.stage.point("worker.state")
        view = MemoryStateStore(self._to, STATE_TOPIC).view()
        there = MemoryStateStore(self._from, STATE_TOPIC).view() if STATE_TOPIC in self._from.topics else view
        self.blocked[name] = frozenset(each for each in TOPICS if copy_blocked_reason(view, there, DR, each))

    def _append(self, name: str, at: MirrorPartition, records: range) -> DestinationOffset | None:
        """Where the first one is; None: its leader knows of a later epoch. Whoever reads committed sees none yet."""
        place, epoch, (start, stable, high) = self.place, self.epochs[name], self._to.ends[at]
        assert isinstance(place, MappedPlace)
        if self._to.owners.get(name) != epoch:
            return None  # verified by its leader
        if not self._to.append(at, epoch.producer_id, epoch.epoch, len(records)):
            return None
        self._to.ends[at] = (start, stable, high + len(records))
        self._to.owned.setdefault(name, set()).add(at)
        if place.is_fenced(at):
            place.violated(FENCED, f"{name} appends to {at}")
        return DestinationOffset(high)
