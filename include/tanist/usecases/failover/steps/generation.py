"""The promotion is counted and the topics leave the mirror: the fence that outlives the barrier."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.records import STATE_TOPIC, Generation, PartitionObserved, observed
from tanist.domain.states import MirrorState, Trigger, Wish, transition
from tanist.usecases.failover.clusters import SOURCE_SECONDS, Source
from tanist.usecases.failover.observe import attempt
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.records import StateRecord, StateView
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """On the destination all or nothing; on the source where it answers and lets us."""
    records = tuple(_records(work))
    work.write(records)
    work.tools.checkpoint("generation:counted")
    told = attempt(lambda: _tell_source(work))
    work.mark("generation")
    return Done(
        {
            "generations": {each.topic: each.count for each in records if isinstance(each, Generation)},
            "source": f"not told: {told}" if isinstance(told, TanistError) else "told",
        }
    )


def _records(work: Work) -> Iterator[StateRecord]:
    view, now = work.observer.view(), work.run.clock.now()
    for topic in work.wanted():
        if topic.wish is not Wish.REMOVED:
            yield replace(topic, wish=Wish.REMOVED, changed_at=now)
    yield from _generations(work)
    for at in work.intent.partitions:
        yield from _stopped(work, view, at, now)


def _generations(work: Work) -> Iterator[Generation]:
    for each in work.intent.topics:
        yield Generation(mirror=work.intent.mirror, topic=each.topic, count=each.generation + 1)


def _stopped(work: Work, view: StateView, at: TopicPartition, now: EpochMs) -> Iterator[PartitionObserved]:
    """Rows 300 and 302, by us: workers may be dead. The last mirrored epoch stays."""
    held = observed(view, work.intent.mirror, at)
    state = held.state if held else MirrorState.UNKNOWN
    blank = PartitionObserved(mirror=work.intent.mirror, partition=at, state=state, row=0, at=now)
    for trigger in (Trigger.REMOVE, Trigger.SEALED):
        if state is MirrorState.STOPPED or (state is MirrorState.STOPPING and trigger is Trigger.REMOVE):
            continue
        row = transition(state, trigger)
        state = row.after
        yield replace(held or blank, state=state, row=row.number, reason=row.reason, error=None, at=now)


def _tell_source(work: Work) -> None:
    """A returning source must not resume its old life: its own state topic says that it was replaced.

    Raises:
        TanistError: it does not answer, or we may not write there.
    """
    source = work.clusters.source
    if not isinstance(source, Source):
        raise source
    by = work.run.clock.deadline(2 * SOURCE_SECONDS)
    source.side.topics.cluster_id(work.run.clock.deadline(SOURCE_SECONDS))
    with closing(source.side.open_store(STATE_TOPIC, work.intent.mirror, by, create=True)) as store:
        store.append(tuple(_generations(work)), by)
