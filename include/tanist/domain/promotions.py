"""Promotion epochs: promotions of a topic are counted on both clusters, so that a stale cluster is not mirrored again.

The destination counts a promotion, and the source is notified. A worker that sees a higher epoch than its own does not
copy until an operator accepts it: neither a returning source nor a restored state topic resumes mirroring by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from tanist.domain.errors import MirrorProducerFenced, PartitionBroken, SourceReplaced
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.lineage import TopicLineage
from tanist.domain.moves import MoveStatus
from tanist.domain.names import MirrorPartition
from tanist.domain.records import PromotionEpoch
from tanist.domain.writer_identity import ProducerIds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from tanist.domain.names import MirrorName
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView

PromotionRecord: TypeAlias = PromotionEpoch | TopicLineage
"""What is stored of promotions on both clusters."""


def copy_blocked_reason(
    view: StateView, source_view: StateView, mirror: MirrorName, topic: str
) -> PartitionBroken | None:
    """Why a topic must not be copied to. `view`: the destination's state topic; `source_view`: the source's own.

    Nothing but this keeps off a worker of a mirror with mapped offsets that wakes late: a coordinator gives a new epoch
    to whoever asks. So such a worker asks here after every InitProducerId, before it reads positions or sends anything.
    """
    if view.promoted(mirror, topic) or topic in leaving(view, mirror):
        return MirrorProducerFenced(f"topic {topic!r} is no longer in the mirror: it was failed over or removed")
    desired = view.topic(mirror, topic)
    counted = source_view.promotions(mirror, topic)
    if desired is not None and counted > desired.promotion_epoch:
        return replaced(mirror, topic, counted, desired.promotion_epoch)
    return None


def leaving(view: StateView, mirror: MirrorName) -> Container[str]:
    """The topics of a failover that is past its point of no return, which is on record before it fences anybody."""
    run = view.unfinished(mirror)
    return _topics_of(run.plan_json) if run is not None and run.no_return else frozenset()


@lru_cache(maxsize=8)
def _topics_of(plan_json: str) -> Container[str]:
    """All, where this version cannot read the plan."""
    try:
        return frozenset(ApprovedPlan.read(plan_json).intent.names)
    except (ValueError, KeyError, TypeError, RecursionError):
        return _EveryTopic()


class _EveryTopic:
    def __contains__(self, _topic: object) -> bool:
        return True


def replaced(mirror: MirrorName, topic: str, counted: int, known: int) -> SourceReplaced:
    return SourceReplaced(
        f"topic {topic!r} of mirror {mirror!r}: the source knows of promotion {counted}, the destination of {known}"
    )


def still_promoted(view: StateView, mirror: MirrorName, topic_ids: Mapping[str, str]) -> tuple[TopicDesired, ...]:
    """The topics that left a mirror, were not added to another mirror of the destination since, and are the same.

    `topic_ids`: the current topic ids at the destination, by name. If another mirror has the topic now, a marker of
    ours there would be a foreign write, and the login that we would deny is the one that copies. Nor do we write to a
    topic that was re-created by another client.
    """
    others = view.of_other_mirrors(mirror)
    replaced = recreated(view, mirror, topic_ids)
    return tuple(t for t in view.removed(mirror) if t.topic not in others and t.topic not in replaced)


def recreated(view: StateView, mirror: MirrorName, topic_ids: Mapping[str, str]) -> dict[str, MirrorName | None]:
    """The topics that left a mirror, were not added to a mirror since, and were re-created under their names.

    With the mirror that has promoted the current topic, if any. A topic whose id is unknown counts as unchanged.
    """
    others = view.of_other_mirrors(mirror)
    left = [topic.topic for topic in view.removed(mirror) if topic.topic not in others]
    return {
        name: _promoted_by(view, mirror, name, topic_ids[name])
        for name in left
        if name in topic_ids and _is_another(view.promotion(mirror, name), topic_ids[name])
    }


def promoted_twice(view: StateView, mirror: MirrorName, topic_ids: Mapping[str, str]) -> dict[str, MirrorName]:
    """The topics of a mirror that are still promoted, and that another mirror has promoted as well, by its name."""
    found = {
        topic.topic: _promoted_by(view, mirror, topic.topic, topic_ids.get(topic.topic, ""))
        for topic in still_promoted(view, mirror, topic_ids)
    }
    return {name: other for name, other in found.items() if other is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerCopy:
    """A topic that a mirror had promoted here before it moved away: its producers must stay fenced in it.

    `topic_id`: of the topic that took over; empty: not recorded. `writer`: of the mirror here.
    """

    mirror: MirrorName
    topic: str
    topic_id: str
    partitions: tuple[MirrorPartition, ...]
    writer: ProducerIds


def former_copies(view: StateView) -> Iterator[FormerCopy]:
    """The promoted topics of mirrors that copy from here since they were reversed.

    Not those that another mirror has now, nor those that were failed over to another cluster since: the source fence is
    in force there.
    """
    mirrored = {topic.topic for topic in view.mirrored()}
    for move in view.moves():
        writer = ProducerIds.stored(move.producer_ids)
        if move.status is not MoveStatus.MOVED or writer is None:
            continue
        last = {entry.topic: entry for entry in view.lineage(move.mirror)}
        for name, entry in last.items():
            if entry.new_cluster_id != move.cluster_id and name not in mirrored:
                yield FormerCopy(
                    mirror=move.mirror,
                    topic=name,
                    topic_id=entry.topic_id,
                    partitions=tuple(MirrorPartition(name, n) for n in range(len(entry.old_ends))),
                    writer=writer,
                )


def _promoted_by(view: StateView, mirror: MirrorName, topic: str, topic_id: str) -> MirrorName | None:
    """The other mirror that has promoted the topic with this id, or may have."""
    for spec in view.mirrors():
        left = {each.topic for each in view.removed(spec.mirror)} if spec.mirror != mirror else set()
        if topic in left and not _is_another(view.promotion(spec.mirror, topic), topic_id):
            return spec.mirror
    return None


def _is_another(promotion: PromotionEpoch | None, topic_id: str) -> bool:
    """Whether the topic with this id is certainly not the one that was promoted."""
    return promotion is not None and bool(topic_id and promotion.topic_id) and promotion.topic_id != topic_id


def promotion_records(view: StateView, mirror: MirrorName) -> frozenset[PromotionRecord]:
    """What the source of a mirror should have recorded: promotions of topics that have left it, and all lineage."""
    found = (view.promotion(mirror, topic.topic) for topic in view.removed(mirror))
    return frozenset((*(each for each in found if each is not None), *view.lineage(mirror)))


def unreported(source_view: StateView, records: Iterable[PromotionRecord]) -> Iterator[PromotionRecord]:
    """Those of `records` that a source has not recorded yet; its count of promotions never decreases."""
    for each in records:
        if isinstance(each, TopicLineage):
            known = source_view.get(each.key) == each
        else:
            known = source_view.promotions(each.mirror, each.topic) >= each.count
        if not known:
            yield each
