"""The lineage of a promotion: determined once, when no record can be appended any more, and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.lineage import TopicLineage, own_start
from tanist.usecases.failover.step import must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.failover.plan import Intent, TopicIntent
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.step import StepContext


def of_run(view: StateView, intent: Intent) -> tuple[TopicLineage, ...]:
    """What is stored of the promotions that `intent` makes, by topic."""
    epochs = {each.topic: each.promotion_epoch + 1 for each in intent.topics}
    return tuple(each for each in view.lineage(intent.mirror) if epochs.get(each.topic) == each.promotion_epoch)


def recorded_lineage(context: StepContext, ours: Intent) -> tuple[TopicLineage, ...]:
    """The lineage of the topics of `ours`; what is not stored yet is determined now, and stored.

    No record can be appended any more. A run that was killed in between finds the same ends in the logs.

    Raises:
        NotYet, TimedOut: a log could not be read.
    """
    held = of_run(context.session.view(), ours)
    known = {each.topic for each in held}
    missing = [topic for topic in ours.topics if topic.topic not in known]
    if not missing:
        return held
    partitions = [at for at in ours.partitions if at.topic not in known]
    writers = dict.fromkeys(partitions, context.spec.producer_ids)
    begun = {at: topic.copy_start(at.partition) for topic in context.wanted() for at in topic.all_partitions()}
    answers = context.destination.producer_fencing.copied_ends(writers, context.by, begun)
    failed = {
        at: named(end, context.destination, f"READ on Topic {at.topic}")
        for at, end in answers.items()
        if isinstance(end, TanistError)
    }
    must_all(failed, "end(s) of copied records could not be determined")
    ends = {at: end for at, end in answers.items() if not isinstance(end, TanistError)}
    context.session.write([_entry(context, topic, ends) for topic in missing])
    return of_run(context.session.view(), ours)


def _entry(context: StepContext, topic: TopicIntent, ends: Mapping[TopicPartition, DestinationOffset]) -> TopicLineage:
    view, intent = context.session.view(), context.intent
    earlier = view.lineage(intent.mirror, topic.topic)
    partitions = sorted(at for at in ends if at.topic == topic.topic)
    old_ends = tuple(max(ends[at], own_start(earlier, at, intent.source_cluster_id)) for at in partitions)
    sealed = view.copied_up_to(intent.mirror, topic.topic)
    reserve_to = sealed.reserve_to if sealed is not None else ()
    targets = (reserve_to[at.partition] if at.partition < len(reserve_to) else 0 for at in partitions)
    return TopicLineage(
        mirror=intent.mirror,
        mirror_id=context.spec.mirror_id,
        topic=topic.topic,
        promotion_epoch=topic.promotion_epoch + 1,
        old_cluster_id=intent.source_cluster_id,
        new_cluster_id=intent.destination_cluster_id,
        old_ends=old_ends,
        reserve_ends=tuple(map(max, old_ends, targets)),
        topic_id=sealed.topic_id if sealed is not None else "",
        at=context.clock.now(),
    )
