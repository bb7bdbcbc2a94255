"""The promotion is counted and the topics leave the mirror: the fence that outlives the barrier."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.records import PartitionObserved, PromotionEpoch
from tanist.domain.states import DesiredState, Finding, MirrorState, next_row
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """All or nothing."""
    work.write(tuple(_records(work)))
    return Done({"generations": {each.topic: each.count for each in generations(work)}})


def _records(work: Work) -> Iterator[StateRecord]:
    view, now = work.observer.view(), work.context.clock.now()
    for topic in work.wanted():
        if topic.desired is not DesiredState.REMOVED:
            yield replace(topic, desired=DesiredState.REMOVED, changed_at=now)
    yield from generations(work)
    for at in work.intent.partitions:
        yield from _stopped(work, view, at, now)


def generations(work: Work) -> Iterator[PromotionEpoch]:
    for each in work.intent.topics:
        yield PromotionEpoch(
            mirror=work.intent.mirror,
            mirror_id=work.clusters.spec.mirror_id,
            topic=each.topic,
            count=each.promotion_epoch + 1,
        )


def _stopped(work: Work, view: StateView, at: TopicPartition, now: EpochMs) -> Iterator[PartitionObserved]:
    """By us: workers may be dead. The last mirrored epoch stays."""
    held = view.observed(work.intent.mirror, at)
    state = held.state if held else MirrorState.UNKNOWN
    blank = PartitionObserved(
        mirror=work.intent.mirror,
        mirror_id=work.clusters.spec.mirror_id,
        partition=at,
        state=state,
        row=0,
        at=now,
    )
    count = next(each.promotion_epoch for each in work.intent.topics if each.topic == at.topic) + 1
    while row := next_row(DesiredState.REMOVED, state, Finding.FENCED):
        state = row.after
        known = held or blank
        yield replace(known, state=state, row=row.number, reason=row.reason, error=None, promotion_epoch=count, at=now)
