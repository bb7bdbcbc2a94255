"""The lineage of a promotion, and its reserve: offsets that the old source may have used are spent on gap markers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import TanistError
from tanist.domain.failover.reserve import NEAR_SECONDS
from tanist.domain.failover.stored_reserves import stored_estimates, stored_gaps
from tanist.domain.lineage import TopicLineage, own_start
from tanist.domain.names import TopicPartition
from tanist.usecases.failover.step import must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.failover.plan import Intent, TopicIntent
    from tanist.domain.names import DestinationOffset
    from tanist.domain.records import CopiedUpTo
    from tanist.domain.state_record import StateRecord
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


_RIGHT = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"
_MEASURED: Final = 1_000
"""Gap markers from which on their rate is stored."""


def reserved_lineage(
    context: StepContext, lineage: Sequence[TopicLineage], open_yet: Collection[TopicPartition]
) -> tuple[TopicLineage, ...]:
    """The lineage after every reserve is written up to its stored end.

    A gap marker of a living worker may have landed among them: then the stored end is corrected by the log. Partitions
    that are fenced already have their reserve. A run that was killed continues to the stored ends. Behind near fences
    all reserves together take `NEAR_SECONDS`; where one ends earlier by that its stored end is corrected, too.

    Raises:
        NotYet, TimedOut: a leader did not answer.
    """
    wanted = {at: end for at, end in _ends(lineage).items() if at in frozenset(open_yet)}
    if not wanted:
        return tuple(lineage)
    begun = context.clock.monotonic()
    reached = _written(context, wanted)
    seconds = context.clock.monotonic() - begun
    corrected = [_corrected(each, reached) for each in lineage]
    changed: list[StateRecord] = [after for before, after in zip(lineage, corrected, strict=True) if before != after]
    before = {at: each.old_ends[at.partition] for each in lineage for at in wanted if at.topic == each.topic}
    written = sum(max(0, reached[at] - before[at]) for at in wanted)
    rate = int(written / seconds) if written >= _MEASURED and seconds > 0 else 0
    changed += _stored_anew(context, wanted, reached, rate)
    if changed:
        context.session.write(changed)
    return tuple(corrected)


def _stored_anew(
    context: StepContext, wanted: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int], rate: int
) -> Iterator[CopiedUpTo]:
    """What is on record of the reserves, with the ends of those that were cut short and the `rate`."""
    short = {at: end for at, end in wanted.items() if reached[at] < end}
    for each in _stored(context.session.view(), context.intent):
        mine = {at.partition: end for at, end in short.items() if at.topic == each.topic}
        to = [reached[TopicPartition(each.topic, n)] if n in mine else end for n, end in enumerate(each.reserve_to)]
        missing = each.unreserved_to or (0,) * len(each.copied)
        less = tuple(mine.get(n, end) for n, end in enumerate(missing))
        new = replace(each, markers_per_second=rate or each.markers_per_second)
        if mine:
            new = replace(new, reserve_to=tuple(to), unreserved_to=less)
        if new != each:
            yield new


def reserve_gaps(view: StateView, intent: Intent) -> dict[str, str]:
    """The partitions whose reserve fell short at the point of no return, with the reason and the cost."""
    return {at: why for each in _stored(view, intent) for at, why in stored_gaps(each).items()}


def reserve_estimates(view: StateView, intent: Intent) -> dict[str, str]:
    """The partitions whose reserve is complete only by an estimate, with what it covers."""
    return {at: why for each in _stored(view, intent) for at, why in stored_estimates(each).items()}


def _stored(view: StateView, intent: Intent) -> tuple[CopiedUpTo, ...]:
    found = (view.copied_up_to(intent.mirror, name) for name in intent.names)
    return tuple(each for each in found if each is not None)


def _ends(lineage: Sequence[TopicLineage]) -> dict[TopicPartition, int]:
    """Where each reserve ends, of the partitions that have one."""
    return {
        TopicPartition(each.topic, n): end
        for each in lineage
        for n, (old_end, end) in enumerate(zip(each.old_ends, each.reserve_ends, strict=True))
        if end > old_end
    }


def _written(context: StepContext, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The committed end of each log, at or behind the end of its reserve, or as far as the time has lasted."""
    fencing, left, reached = context.destination.producer_fencing, dict(wanted), dict[TopicPartition, int]()
    near = context.intent.mode is Mode.PLANNED
    until = context.clock.deadline(NEAR_SECONDS)
    while left and not (near and reached and not until.left(context.clock.monotonic())):
        context.session.beat()
        context.session.confirm()
        answers = fencing.reserve(left, dict.fromkeys(left, context.spec.producer_ids), context.by)
        failed = {at: e for at, e in answers.items() if isinstance(e, TanistError)}
        must_all(
            {at: named(error, context.destination, _RIGHT) for at, error in failed.items()},
            "reserve(s) could not be written",
        )
        reached |= {at: int(end) for at, end in answers.items() if not isinstance(end, TanistError)}
        left = {at: end for at, end in left.items() if reached[at] < end}
        context.checkpoint("seal:reserving")
    return reached


def _corrected(entry: TopicLineage, reached: Mapping[TopicPartition, int]) -> TopicLineage:
    ends = (reached.get(TopicPartition(entry.topic, n), end) for n, end in enumerate(entry.reserve_ends))
    return replace(entry, reserve_ends=tuple(map(max, entry.old_ends, ends)))
