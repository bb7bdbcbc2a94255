"""Whether quarantine topics still have what was rescued into them: other clients may delete records, or the topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.compaction import is_compacted
from tanist.domain.errors import Refused, TanistError
from tanist.domain.failback.decision import NothingToDecide, classify
from tanist.domain.failback.pending import last_tails
from tanist.domain.names import MirrorPartition, ProducerId
from tanist.domain.problems import refuse
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.ports.tails import TailCopy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tanist.domain.failback.decision import TailClass
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import EpochMs
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, ReplayProgress, TopicTails
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import KeyWritten, Replays, RescuedRecord
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


class QuarantineChanged(Refused):
    name = "QUARANTINE_CHANGED"
    operator_action = (
        "`tanist failback rescue` copies the records of undecided tails again, as far as the old source still has "
        "them; nothing was changed"
    )


def copy_of(tails: TopicTails, tail: PartitionTail) -> TailCopy:
    """Where a tail is copied from and to."""
    return TailCopy(
        source=tails.partition_of(tail),
        cluster_id=tails.cluster_id,
        begin=tail.common_end,
        end=tail.end,
        into=MirrorPartition(tails.quarantine, tail.partition),
        start=max(0, tail.copied_from),
        producer_id=ProducerId(tails.producer_id),
    )


def missing(clusters: ReturnedMirror, tails: TopicTails, by: Deadline) -> tuple[str, ...]:
    """The quarantine partitions that do not have all offsets that were rescued into them, with the reason.

    Raises:
        BrokerError, CouldNotTell: the new primary does not answer.
    """
    begun = [each for each in tails.with_records() if each.copied_from >= 0]
    ends = clusters.destination.logs.ends([copy_of(tails, each).into for each in begun], by)
    found = []
    for each in begun:
        at, answer = copy_of(tails, each).into, ends[copy_of(tails, each).into]
        if isinstance(answer, UnknownTopicOrPartition):
            found.append(f"{at} does not exist any more")
        elif isinstance(answer, TanistError):
            raise answer
        elif answer.start > each.copied_from or answer.high_watermark < max(each.copied_from, each.copied_to):
            rescued = f"{each.copied_from} to {max(each.copied_from, each.copied_to)}"
            found.append(f"{at} has offsets {answer.start} to {answer.high_watermark}, rescued were {rescued}")
    return tuple(found)


def ensure_present(clusters: ReturnedMirror, tails: Iterable[TopicTails], by: Deadline) -> None:
    """Raises QuarantineChanged if quarantine topics do not have all offsets that were rescued into them."""
    if wrong := [reason for of in tails for reason in missing(clusters, of, by)]:
        refuse(QuarantineChanged(reason) for reason in wrong)


def altered_topics(clusters: ReturnedMirror, view: StateView, names: Collection[str], by: Deadline) -> dict[str, str]:
    """Of the last promotions of these topics those whose rescued records are not in quarantine any more, and why.

    Raises as `altered`.
    """
    known = [of for of in last_tails(view, clusters.spec.mirror) if of.topic in names]
    found = {of.topic: "; ".join(altered(clusters, of, by)) for of in known}
    return {topic: reasons for topic, reasons in found.items() if reasons}


def altered(clusters: ReturnedMirror, tails: TopicTails, by: Deadline) -> Iterator[str]:
    """The partitions whose rescued records are not in quarantine as they were rescued; all of them are read.

    Raises:
        BrokerError, CouldNotTell: the new primary does not answer.
    """
    if reasons := missing(clusters, tails, by):
        yield from reasons
        return
    for each in tails.with_records():
        copy = copy_of(tails, each)
        found = clusters.pair.quarantine.rescued(copy, by)
        if found.digest != each.digest:
            yield f"{copy.into} has {found.records} of {each.records} rescued records, or others"


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
    def partition(self) -> MirrorPartition:
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
    replayers = {number for each in view.replays(clusters.spec.mirror) for number in each.producer_ids}
    watch = KeyWatch(
        replays=clusters.destination.replays,
        copy=copy,
        rules=rules,
        last_offsets=last_offsets,
        own_from=own_from,
        without=frozenset({*clusters.spec.writer, *replayers}),
        seen=0 if rules.compacted else own_from,
    )
    watch.look(by)
    return watch


def records_from(watch: KeyWatch, offset: int, command: CommandContext) -> Iterator[RescuedRecord]:
    """The rescued records from an offset of the old source on."""
    return (each for each in watch.replays.rescued(watch.copy, command.by) if each.offset >= offset)
