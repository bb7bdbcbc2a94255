"""Which keys of a divergent tail the new primary has written since, up to the present."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failback.decision import NothingToDecide, classify
from tanist.domain.holes import is_compacted
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.usecases.failback.quarantined import QuarantineChanged, copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failback.decision import TailClass
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, ReplayProgress, TopicTails
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import KeyWritten, Replays, RescuedRecord, TailCopy
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Of the topic at the new primary. `retention_ms`: None: unlimited. `compacted`: it keeps the last of each key."""

    compacted: bool
    retention_ms: int | None
    max_message_bytes: int


def rules_of(facts: TopicFacts | TanistError) -> TopicRules:
    """The configs in effect that decide about rescued records. Raises the error if there are none."""
    if isinstance(facts, TanistError):
        raise facts
    policy = facts.effective.get(CLEANUP_POLICY, "delete")
    retention = int(facts.effective.get("retention.ms", "-1"))
    deletes = "delete" in policy.split(",") and retention >= 0
    limit = int(facts.effective.get("max.message.bytes", "1048588"))
    return TopicRules(is_compacted(policy), retention if deletes else None, limit)


@dataclass(slots=True, kw_only=True)
class KeyWatch:
    """The last record of each key of a tail at the new primary, read up to `seen`.

    `last_offsets`: of each key the last offset in the tail. `own_from`: where the new primary's own records begin.
    `without`: producer ids of the mirror and of replays, whose records are not the new primary's.
    """

    replays: Replays
    copy: TailCopy
    rules: TopicRules
    last_offsets: dict[bytes, int]
    own_from: int
    without: frozenset[int]
    seen: int
    last: dict[bytes, KeyWritten] = field(default_factory=dict)

    @property
    def partition(self) -> TopicPartition:
        return self.copy.source

    def look(self, by: Deadline) -> None:
        """Read what was written since the last time."""
        end = self.replays.end(self.partition, by)
        if end <= self.seen or not self.last_offsets:
            return
        span = (self.seen, end)
        for key, found in self.replays.last_of_keys(
            self.partition, span, self.last_offsets, self.own_from, self.without, by
        ).items():
            before = self.last.get(key)
            self.last[key] = found._replace(own=found.own or (before is not None and before.own))
        self.seen = end

    def is_newer(self, key: bytes | None) -> bool:
        """Whether the new primary has a newer record of a key."""
        found = None if key is None else self.last.get(key)
        return found is not None and found.own

    def classify(self, record: RescuedRecord, expired_at: EpochMs) -> TailClass:
        """The class of a record, as far as was read. `expired_at`: see `DecisionPlan`."""
        newer = {record.key} if record.key is not None and self.is_newer(record.key) else set()
        return classify(record.key, record.time, newer, self.rules.retention_ms, expired_at)


def entry_of(view: StateView, tails: TopicTails) -> TopicLineage:
    """The lineage of the promotion that has left these tails.

    Raises:
        NothingToDecide: it is not on record any more.
    """
    for each in view.lineage(tails.mirror, tails.topic):
        if each.promotion_epoch == tails.promotion_epoch:
            return each
    raise NothingToDecide(f"the promotion {tails.promotion_epoch} of topic {tails.topic} is not on record")


def replay_of(view: StateView, tails: TopicTails, tail: PartitionTail) -> ReplayProgress | None:
    """How far the rescued records of a partition are replayed, by the last plan; None: no plan has begun."""
    at = (tails.partition_of(tail), tails.promotion_epoch)
    return next((each for each in view.replays(tails.mirror) if (each.partition, each.promotion_epoch) == at), None)


def watch_keys(
    clusters: ReturnedMirror, tails: TopicTails, tail: PartitionTail, rules: TopicRules, view: StateView, by: Deadline
) -> KeyWatch:
    """What the new primary has of the keys of a tail now.

    Raises:
        QuarantineChanged: quarantine does not have all records that were rescued.
    """
    copy, count = copy_of(tails, tail), 0
    last_offsets: dict[bytes, int] = {}
    for each in clusters.destination.replays.rescued(copy, by):
        count += 1
        if each.key is not None:
            last_offsets[each.key] = each.offset
    if count != tail.records:
        raise QuarantineChanged(f"{copy.into} has {count} of {tail.records} rescued records")
    own_from = entry_of(view, tails).reserve_ends[tail.partition]
    ids = clusters.spec.producer_ids
    replayers = {number for each in view.replays(clusters.spec.mirror) for number in each.producer_ids}
    watch = KeyWatch(
        replays=clusters.destination.replays,
        copy=copy,
        rules=rules,
        last_offsets=last_offsets,
        own_from=own_from,
        without=frozenset({ids.data, ids.marker, ids.start, *replayers}),
        seen=0 if rules.compacted else own_from,
    )
    watch.look(by)
    return watch


def records_from(watch: KeyWatch, offset: int, command: CommandContext) -> Iterator[RescuedRecord]:
    """The rescued records from an offset of the old source on."""
    return (each for each in watch.replays.rescued(watch.copy, command.by) if each.offset >= offset)
