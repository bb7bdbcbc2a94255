"""What is stored of a promotion whose records were lost, as far as the log of the new primary shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.fences import FenceStatus
from tanist.domain.lineage import TopicLineage, own_start
from tanist.domain.records import CopiedUpTo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.saved_state import PromotedSince
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedLog:
    """A log that was failed over. `start`: its log start. `old_end`, `reserve_end`: as in lineage."""

    start: int
    old_end: int
    reserve_end: int

    def shows_old_end(self, copy_start: int) -> bool:
        """Whether it still has what shows where copying ended. `copy_start`: where copying began.

        Not if retention has deleted everything before the first record of the new primary.
        """
        return self.start <= copy_start or self.reserve_end > self.start


def restored_lineage(
    spec: MirrorSpec,
    topic: TopicDesired,
    epoch: int,
    logs: Mapping[MirrorPartition, PromotedLog],
    earlier: Iterable[TopicLineage],
    at: EpochMs,
) -> TopicLineage | None:
    """The lineage of the promotion `epoch` of a topic; None: one of its logs does not show where copying ended.

    `reserve_ends` are the producer fences, so they may lie behind those that the failover had planned.
    """
    partitions, entries = topic.all_partitions(), tuple(earlier)
    if not all(at in logs and logs[at].shows_old_end(topic.copy_start(at.partition)) for at in partitions):
        return None
    old_ends = [max(logs[at].old_end, own_start(entries, at, spec.source_cluster_id)) for at in partitions]
    return TopicLineage(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        topic=topic.topic,
        promotion_epoch=epoch,
        old_cluster_id=spec.source_cluster_id,
        new_cluster_id=spec.destination_cluster_id,
        old_ends=tuple(old_ends),
        reserve_ends=tuple(max(end, logs[at].reserve_end) for end, at in zip(old_ends, partitions, strict=True)),
        at=at,
    )


def restored_copied(entry: TopicLineage, mapped: Collection[MirrorPartition]) -> CopiedUpTo:
    """How far a topic had been copied. `mapped`: partitions whose offsets differ from the source's."""
    named = {at.partition for at in mapped if at.topic == entry.topic}
    return CopiedUpTo(
        mirror=entry.mirror,
        mirror_id=entry.mirror_id,
        topic=entry.topic,
        copied=tuple(-1 if number in named else end for number, end in enumerate(entry.old_ends)),
        topic_id=entry.topic_id,
        reserve_to=entry.reserve_ends,
        at=entry.at,
    )


def promotion_warnings(
    spec: MirrorSpec, view: StateView, promoted: Mapping[str, PromotedSince], from_logs: Collection[str]
) -> Iterator[str]:
    """What a person should know of topics that were failed over since. `view`: as it is restored.

    `from_logs`: topics whose lineage is read from their logs.
    """
    fences = spec.names.by_copy({each.topic: each.status for each in view.source_fences(spec.mirror)})
    known = {(each.topic, each.promotion_epoch) for each in view.lineage(spec.mirror)}
    for topic, since in promoted.items():
        said = f"{topic} was failed over since the export ({since.why}): it is not copied to again"
        if fences.get(topic) is FenceStatus.PENDING:
            said += f", and its source fence is pending until a fetcher of {spec.destination!r} reaches {spec.source!r}"
        yield said
        if topic in from_logs:
            yield f"{topic}: the lineage of this failover is read from its log (`tanist mirrors lineage {spec.mirror}`)"
        elif (topic, since.promotion_epoch) not in known:
            yield (
                f"{topic}: neither {spec.source!r} nor the log shows where the copied records end, so "
                "`tanist failback survey` cannot compare it"
            )
