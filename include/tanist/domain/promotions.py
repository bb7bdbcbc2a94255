"""Who took over from whom: a topic's promotions are counted on both sides, and the lower count is an old life.

The destination counts when it takes over, the source is told. Whoever sees a higher count than its own stays stopped
until a person says otherwise: neither a source that returns nor a state topic that was restored resumes its old life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorProducerFenced, PartitionBroken, SourceReplaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def still_promoted(view: StateView, mirror: MirrorName) -> tuple[TopicDesired, ...]:
    """The topics that left a mirror and that no other mirror of the destination has taken in since.

    Another mirror's copy carries the name of ours that was deleted: a marker of ours there is a foreign write, and the
    login that we would deny is the one that copies.
    """
    others = view.of_other_mirrors(mirror)
    return tuple(topic for topic in view.removed(mirror) if topic.topic not in others)


def promotions(view: StateView, mirror: MirrorName) -> frozenset[PromotionEpoch]:
    """The promotions of a mirror's topics that have left it: what its source should know."""
    found = (view.promotion(mirror, topic.topic) for topic in view.removed(mirror))
    return frozenset(each for each in found if each is not None)


def unreported(source_view: StateView, promotions: Iterable[PromotionEpoch]) -> Iterator[PromotionEpoch]:
    """Those of `promotions` that a source does not know of yet; its count never goes down."""
    return (each for each in promotions if source_view.promotions(each.mirror, each.topic) < each.count)
