"""Who took over from whom: a topic's promotions are counted on both sides, and the lower count is an old life.

The destination counts when it takes over, the source is told. Whoever sees a higher count than its own stays stopped
until a person says otherwise: neither a source that returns nor a state topic that was restored resumes its old life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorProducerFenced, PartitionBroken, SourceReplaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tanist.domain.names import MirrorName
    from tanist.domain.records import PromotionEpoch, TopicDesired
    from tanist.domain.state_view import StateView


def copy_blocked_reason(
    view: StateView, source_view: StateView, mirror: MirrorName, topic: str
) -> PartitionBroken | None:
    """Why nobody may copy into a topic. `view`: the destination's state topic; `source_view`: the source's own."""
    if view.promoted(mirror, topic):
        return MirrorProducerFenced(f"topic {topic!r} is no longer in the mirror: it was failed over or removed")
    desired = view.topic(mirror, topic)
    counted = source_view.promotions(mirror, topic)
    if desired is not None and counted > desired.promotion_epoch:
        return replaced(mirror, topic, counted, desired.promotion_epoch)
    return None


def replaced(mirror: MirrorName, topic: str, counted: int, known: int) -> SourceReplaced:
    return SourceReplaced(
        f"topic {topic!r} of mirror {mirror!r}: the source knows of promotion {counted}, the destination of {known}"
    )


def still_promoted(view: StateView, mirror: MirrorName, topic_ids: Mapping[str, str]) -> tuple[TopicDesired, ...]:
    """The topics that left a mirror, that no other mirror of the destination has taken in since, and that are the same.

    `topic_ids`: what the destination has under these names now. Another mirror's copy carries the name of ours that was
    deleted: a marker of ours there is a foreign write, and the login that we would deny is the one that copies. Nor do
    we write into a topic that somebody else has created under the name.
    """
    others = view.of_other_mirrors(mirror)
    replaced = recreated(view, mirror, topic_ids)
    return tuple(t for t in view.removed(mirror) if t.topic not in others and t.topic not in replaced)


def recreated(view: StateView, mirror: MirrorName, topic_ids: Mapping[str, str]) -> dict[str, MirrorName | None]:
    """The topics that left a mirror, that no mirror has taken in since, and whose name is another topic's now.

    And the mirror that has promoted what is there now, if there is one. A topic whose id is not known is the same.
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


def promotions(view: StateView, mirror: MirrorName) -> frozenset[PromotionEpoch]:
    """The promotions of a mirror's topics that have left it: what its source should know."""
    found = (view.promotion(mirror, topic.topic) for topic in view.removed(mirror))
    return frozenset(each for each in found if each is not None)


def unreported(source_view: StateView, promotions: Iterable[PromotionEpoch]) -> Iterator[PromotionEpoch]:
    """Those of `promotions` that a source does not know of yet; its count never goes down."""
    return (each for each in promotions if source_view.promotions(each.mirror, each.topic) < each.count)
