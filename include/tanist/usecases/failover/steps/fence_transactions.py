"""The barrier of a mirror with mapped offsets: its transactional ids are fenced, and its positions are published.

That the topics are not mirrored any more is on record by then (`domain.promotions.leaving`), which keeps off whoever
gets a new epoch later. No reserve is written: no offset of the source is one of the copy. Nor is a record repeated
where a cleaner may erase the marker: a worker that wakes then is kept off by the state that it reads, and a leader that
has forgotten the marker asks the coordinator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import PartitionBroken, TanistError
from tanist.domain.failover.run_lineage import of_run
from tanist.domain.fake_group import CopiedPosition, published
from tanist.domain.lineage import TopicLineage
from tanist.domain.mapped_runs import UnreadableRanges
from tanist.domain.names import MirrorPartition
from tanist.domain.writers import transactional_writers
from tanist.usecases.failover.step import must_all
from tanist.usecases.failover.steps.groups import move
from tanist.usecases.mirrors.published_ranges import publish
from tanist.usecases.offset_policy import copied_positions
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist.domain.failover.plan import Intent, TopicIntent
    from tanist.domain.mapped_runs import OffsetRangesWritten
    from tanist.domain.records import CopiedUpTo
    from tanist.domain.state_view import StateView
    from tanist.ports.fencing import TransactionFence
    from tanist.usecases.failover.step import StepContext


def fence_transactions(context: StepContext, ours: Intent, open_yet: Sequence[MirrorPartition]) -> Done:
    """May be done again after any crash: each time adds a marker, until the fence of a topic is on record.

    The ends are read behind the fence: before it an open transaction of a dead worker may hold the last stable offset.

    Raises:
        NotYet, TimedOut: a partition is not fenced, or how far it was copied cannot be read.
    """
    fences = _fence(context, open_yet)
    context.checkpoint("seal:sealed")
    positions, unread = _positions(context, ours)
    publish(context.destination, _ranges(context, positions), context.by, context.session.confirm)
    context.checkpoint("seal:published")
    moved = _has_moved(context, ours, positions)
    if moved:  # a transaction that was being committed has ended since the groups were translated
        move(context, ask_source=False)
        context.checkpoint("seal:groups")
    context.session.write([*_copied(context, ours, positions), *_lineage(context, ours, fences)])
    context.checkpoint("seal:lineage")
    lineage = of_run(context.session.view(), ours)
    return Done(
        {
            "ends": {str(at): end for each in lineage for at, end in _ends(each)},
            "lineage": {each.topic: {"old_ends": each.old_ends, "reserve_ends": each.reserve_ends} for each in lineage},
            "copied": {str(at): each.position for at, each in sorted(positions.items())},
            "positions_unknown": unread,
            "groups_again": moved,
        }
    )


def _fence(context: StepContext, partitions: Sequence[MirrorPartition]) -> Mapping[MirrorPartition, TransactionFence]:
    writers = transactional_writers(context.session.view(), context.spec, partitions)
    before = copied_positions(context.spec, context.destination, context.session.view(), context.by)
    writers = {at: each._replace(last=_known(before.get(at))) for at, each in writers.items()}
    context.session.confirm()
    answers = context.destination.producer_fencing.fence_transactional_ids(writers, context.by) if writers else {}
    failed = {
        at: named(each, context.destination, f"WRITE on TransactionalId {writers[at].transactional_id}")
        for at, each in answers.items()
        if isinstance(each, TanistError)
    }
    must_all(failed, "partition(s) could not be fenced")
    return {at: each for at, each in answers.items() if not isinstance(each, TanistError)}


def _known(position: CopiedPosition | TanistError | None) -> CopiedPosition | None:
    return None if isinstance(position, TanistError) else position


def _positions(context: StepContext, ours: Intent) -> tuple[dict[MirrorPartition, CopiedPosition], dict[str, str]]:
    """How far each partition is copied; and why nobody knows it of others, whose topics take over all the same."""
    answers = copied_positions(context.spec, context.destination, context.session.view(), context.by, stable=True)
    found = {at: answers.get(at) for at in ours.partitions}
    unread = {at: why for at, why in found.items() if isinstance(why, (PartitionBroken, UnreadableRanges))}
    must_all(
        {at: each for at, each in found.items() if isinstance(each, TanistError) and at not in unread},
        "position(s) of the mirror could not be read",
    )
    positions = {at: each for at, each in found.items() if isinstance(each, CopiedPosition)}
    missing = {str(at): "no position was committed" for at, each in found.items() if each is None}
    return positions, missing | {str(at): why.reason for at, why in unread.items()}


def _ranges(context: StepContext, positions: Mapping[MirrorPartition, CopiedPosition]) -> Iterator[OffsetRangesWritten]:
    """What is not published yet, up to the position itself: behind it, the next record is that of the new primary."""
    spec = context.spec
    for at, each in sorted(positions.items()):
        yield published(spec.mirror, at, each, spec.mirror_id)


def _has_moved(context: StepContext, ours: Intent, positions: Mapping[MirrorPartition, CopiedPosition]) -> bool:
    """Whether more is copied than when the point of no return was passed."""
    before = {each.topic: each.copied for each in _stored(context, ours)}
    return any(
        at.topic in before
        and at.partition < len(before[at.topic])
        and 0 <= before[at.topic][at.partition] < each.position
        for at, each in positions.items()
    )


def _stored(context: StepContext, ours: Intent) -> Iterator[CopiedUpTo]:
    view = context.session.view()
    found = (view.copied_up_to(ours.mirror, topic) for topic in ours.names)
    return (each for each in found if each is not None)


def _copied(
    context: StepContext, ours: Intent, positions: Mapping[MirrorPartition, CopiedPosition]
) -> Iterator[CopiedUpTo]:
    """What is on record of how far each topic was copied, as it turned out behind the fence."""
    for each in _stored(context, ours):
        seen = (positions.get(MirrorPartition(each.topic, n)) for n in range(len(each.copied)))
        copied = tuple(old if now is None else int(now.position) for old, now in zip(each.copied, seen, strict=True))
        if copied != each.copied:
            yield replace(each, copied=copied, at=context.clock.now())


def _lineage(
    context: StepContext, ours: Intent, fences: Mapping[MirrorPartition, TransactionFence]
) -> Iterator[TopicLineage]:
    """Of the topics of which none is on record."""
    view = context.session.view()
    known = {each.topic for each in of_run(view, ours)}
    for topic in ours.topics:
        if topic.topic not in known:
            yield _entry(context, view, topic, fences)


def _entry(
    context: StepContext, view: StateView, topic: TopicIntent, fences: Mapping[MirrorPartition, TransactionFence]
) -> TopicLineage:
    sealed = view.copied_up_to(context.intent.mirror, topic.topic)
    found = [fences[MirrorPartition(topic.topic, n)] for n in range(topic.partitions)]
    ends = tuple(int(each.end) for each in found)
    return TopicLineage(
        mirror=context.intent.mirror,
        mirror_id=context.spec.mirror_id,
        topic=topic.topic,
        promotion_epoch=topic.promotion_epoch + 1,
        old_cluster_id=context.intent.source_cluster_id,
        new_cluster_id=context.intent.destination_cluster_id,
        old_ends=ends,
        reserve_ends=ends,
        topic_id=sealed.topic_id if sealed is not None else "",
        at=context.clock.now(),
        fenced_in=tuple((each.epoch.producer_id, each.epoch.epoch) for each in found),
    )


def _ends(entry: TopicLineage) -> Iterable[tuple[MirrorPartition, int]]:
    return ((MirrorPartition(entry.topic, n), end) for n, end in enumerate(entry.old_ends))
