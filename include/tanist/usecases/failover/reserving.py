"""Offsets that the old source may have used are spent on gap markers, before anything else can be written there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failover.stored_reserves import stored_estimates, stored_gaps
from tanist.domain.holes import Holes
from tanist.domain.names import TopicPartition
from tanist.usecases.failover.step import must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tanist.domain.failover.plan import Intent
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import CopiedUpTo
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.step import StepContext

_RIGHT = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"


def reserved_lineage(
    context: StepContext,
    lineage: Sequence[TopicLineage],
    open_yet: Collection[TopicPartition],
    compacted: Callable[[], Collection[TopicPartition]],
) -> tuple[TopicLineage, ...]:
    """The lineage after every reserve is written up to its stored end.

    A gap marker of a living worker may have landed among them: then the stored end is corrected by the log. Partitions
    that are fenced already have their reserve. A run that was killed continues to the stored ends. `compacted`: the
    partitions whose offsets hold copies of records, as they do while the topic is mirrored.

    Raises:
        NotYet, TimedOut: a leader did not answer.
    """
    wanted = {at: end for at, end in _ends(lineage).items() if at in frozenset(open_yet)}
    copied = compacted() if wanted and context.spec.holes is Holes.COPIES else ()
    reached = _written(context, wanted, copied)
    corrected = [_corrected(each, reached) for each in lineage]
    if changed := [after for before, after in zip(lineage, corrected, strict=True) if before != after]:
        context.session.write(changed)
    return tuple(corrected)


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


def _written(
    context: StepContext, wanted: Mapping[TopicPartition, int], copied: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The committed end of each log, at or behind the end of its reserve."""
    fencing, left, reached = context.destination.producer_fencing, dict(wanted), dict[TopicPartition, int]()
    while left:
        context.session.beat()
        context.session.confirm()
        answers = fencing.reserve(left, dict.fromkeys(left, context.spec.producer_ids), context.by, copied=copied)
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
    ends = (max(end, reached.get(TopicPartition(entry.topic, n), 0)) for n, end in enumerate(entry.reserve_ends))
    return replace(entry, reserve_ends=tuple(ends))
