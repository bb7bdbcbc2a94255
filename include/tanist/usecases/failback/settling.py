"""The state of a mirror is written to its new destination, and locked there until its old one has a forwarding record.

`lock/NAME` of the old destination excludes other commands there only. So the move itself is part of the state: at the
new destination it says that the mirror arrives, and every change is refused until `end_arrival` deletes it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorExists
from tanist.domain.kept_fences import kept_after
from tanist.domain.moves import MoveStatus, arrives, left_over, opposite
from tanist.domain.names import TopicPartition
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, PromotionEpoch
from tanist.domain.state_record import Tombstone
from tanist.usecases import state_topics
from tanist.usecases.failback.copy_starts import copy_starts
from tanist.usecases.failback.reversal import PURPOSE, topic_plans
from tanist.usecases.lock import mirror_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.failback.reversal import Reversal
    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.survey import ReturnContext
    from tanist.usecases.lock import LockedMirror


@dataclass(frozen=True, slots=True)
class Settling:
    """One attempt, under the lock of the mirror at its old destination. `checkpoint`: tests stop it there."""

    clusters: ReturnContext
    command: CommandContext
    lock: LockedMirror
    checkpoint: Callable[[str], None]

    @property
    def spec(self) -> MirrorSpec:
        return self.clusters.spec

    @property
    def home(self) -> Cluster:
        """The old source, which is the mirror's destination from now on."""
        return self.clusters.source

    def make_ready(self) -> None:
        """Create what the state is written to, while the source fence still stands: that takes seconds."""
        for topic in (OFFSETS_TOPIC, STATE_TOPIC):
            self.home.open_store(topic, None, self.command.by, create=True).close()

    def settle(self, reversal: Reversal, move: MirrorMove) -> None:
        """Write the mirror's state to its new destination, in one transaction, with the move that locks it there.

        The store is opened before the lock is confirmed: a command that lost the lock to another one is fenced here, or
        finds out there. Raises MirrorExists.
        """
        by = self.command.by
        self.checkpoint("ready")
        with closing(self.home.open_store(STATE_TOPIC, self.spec.mirror, by, create=True)) as store:
            view = store.catch_up(by)
            if (there := view.mirror(self.spec.mirror)) is not None and there.mirror_id != self.spec.mirror_id:
                raise MirrorExists(f"{self.home.name!r} has another mirror {self.spec.mirror!r}")
            self.lock.confirm()
            before = self.lock.view().before_reversal(self.spec.mirror)
            records = self._records(reversal, copy_starts(reversal.topics, before, self.home, by))
            arrival = replace(move, status=MoveStatus.MOVING, producer_ids=())
            keys = {each.key for each in (*records, arrival)}
            gone = {*left_over(view.keys_of(self.spec.mirror))} & set(view) - keys
            self.checkpoint("settling")
            store.append([*(Tombstone(key) for key in sorted(gone)), *records, arrival], by)

    def _records(self, reversal: Reversal, ends: Mapping[TopicPartition, int]) -> list[StateRecord]:
        now, view = self.command.clock.now(), self.lock.view()
        by = self.command.by
        data_id, marker_id, start_id = (self.home.logs.new_producer_id(by) for _ in range(3))
        spec = replace(opposite(self.spec), data_id=data_id, marker_id=marker_id, start_id=start_id)
        there = state_topics.read(self.home, STATE_TOPIC, by)
        names = [each.topic for each in reversal.topics]
        plans = {each.name: each for each in topic_plans(self.clusters, there, names, self.command)}
        topics = [
            replace(
                plans[each.topic].desired(spec, each.promotion_epoch, now),
                copy_starts=tuple(ends[TopicPartition(each.topic, n)] for n in range(len(each.free_from))),
                denied=each.denied,
                given_at_source=_given(view, self.spec.mirror, each.topic),
            )
            for each in reversal.topics
        ]
        epochs = [self._epoch(view, topic) for topic in view.removed(spec.mirror)]
        history = (*view.lineage(spec.mirror), *view.failovers(spec.mirror), *view.tails(spec.mirror))
        kept = kept_after(view, self.spec, {each.topic for each in reversal.topics}, now)
        return [spec, *topics, *epochs, *history, *view.findings_accepted(spec.mirror), *kept]

    def _epoch(self, view: StateView, topic: TopicDesired) -> PromotionEpoch:
        """Without the topic id: that was the id of the topic at the other cluster."""
        count = view.promotions(self.spec.mirror, topic.topic)
        return PromotionEpoch(mirror=topic.mirror, mirror_id=topic.mirror_id, topic=topic.topic, count=count)


def _given(view: StateView, mirror: MirrorName, topic: str) -> tuple[AclEntry, ...]:
    """What the failover has created at the new primary, which is the source from now on."""
    found = view.topic(mirror, topic)
    return found.given or () if found is not None else ()


def end_arrival(home: Cluster, mirror: MirrorName, command: CommandContext) -> bool:
    """Unlock the mirror at its new destination, once its old one has the forwarding record; False: it is not locked.

    Raises:
        UnknownMirror: it has moved on, or was deleted. MirrorLocked: another command changes it.
    """
    view = state_topics.read(home, STATE_TOPIC, command.by)
    if not arrives(view.moving(mirror), state_topics.spec_of(view, mirror, home.name)):
        return False
    with mirror_lock(home, mirror, PURPOSE, command) as lock:
        move = lock.view().moving(mirror)
        if move is not None and arrives(move, lock.spec):
            lock.append([Tombstone(move.key)])
    return True
