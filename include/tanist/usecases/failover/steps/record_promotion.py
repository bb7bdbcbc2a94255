"""The promotion is counted and the topics leave the mirror: the fence that outlives the barrier."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.names import MirrorPartition
from tanist.domain.records import PartitionObserved, PromotionEpoch
from tanist.domain.states import DesiredState, Finding, MirrorState, next_row
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.step import StepContext


def do(context: StepContext) -> Done:
    """All or nothing."""
    context.session.write(tuple(_records(context)))
    return Done({"generations": {each.topic: each.count for each in generations(context.intent, context.spec)}})


def _records(context: StepContext) -> Iterator[StateRecord]:
    view, now = context.session.view(), context.clock.now()
    for topic in context.wanted():
        if topic.desired is not DesiredState.REMOVED:
            yield replace(topic, desired=DesiredState.REMOVED, changed_at=now)
    for each in generations(context.intent, context.spec):
        copy = view.copied_up_to(each.mirror, each.topic)  # as approved: by now the topic may be another one
        yield replace(each, topic_id=copy.topic_id if copy is not None else "")
    for approved in context.intent.topics:
        for number in range(approved.partitions):
            at = MirrorPartition(approved.topic, number)
            yield from _stopped(context, view, at, approved.promotion_epoch + 1, now)


def generations(intent: Intent, spec: MirrorSpec) -> Iterator[PromotionEpoch]:
    """The promotion of every topic of `intent`, counted."""
    for each in intent.topics:
        yield PromotionEpoch(
            mirror=intent.mirror, mirror_id=spec.mirror_id, topic=each.topic, count=each.promotion_epoch + 1
        )


def _stopped(
    context: StepContext, view: StateView, at: MirrorPartition, count: int, now: EpochMs
) -> Iterator[PartitionObserved]:
    """By us: workers may be dead. The last mirrored epoch stays. `count`: of promotions."""
    held = view.observed(context.intent.mirror, at)
    state = held.state if held else MirrorState.UNKNOWN
    blank = PartitionObserved(
        mirror=context.intent.mirror,
        mirror_id=context.spec.mirror_id,
        partition=at,
        state=state,
        row=0,
        at=now,
    )
    while row := next_row(DesiredState.REMOVED, state, Finding.FENCED):
        state = row.after
        known = held or blank
        yield replace(known, state=state, row=row.number, reason=row.reason, error=None, promotion_epoch=count, at=now)
