"""The old source is told, and watched until nobody writes there. After writes are open: nobody waits for this."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.answers import attempt
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.fences import FenceStatus
from tanist.domain.promotions import unreported
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.failover.left_behind import left_behind
from tanist.usecases.failover.lineage import of_run
from tanist.usecases.failover.step import Done
from tanist.usecases.failover.steps.fence import Watch
from tanist.usecases.failover.steps.generation import generations
from tanist.usecases.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import TopicPartition
    from tanist.domain.promotions import PromotionRecord
    from tanist.ports.cluster import Cluster
    from tanist.usecases.failover.step import StepContext

_LOOK_SECONDS: Final = 0.5
_WINDOWS: Final = 3
"""Somebody who goes on writing is waited for so many times the window, and is told of then."""


def do(context: StepContext) -> Done:
    """A list, no judgement: `tanist status` goes on watching (`left_behind`)."""
    began = context.clock.monotonic()
    found = {"fences_owed": _pending_fences(context), **_seen(context)}
    waited = context.clock.monotonic() - began
    reported = attempt(lambda: _tell_source(context)) if "why" not in found else TimedOut(str(found["why"]))
    context.checkpoint("movers:told")
    context.session.mark("movers")
    return Done(found | {"source": f"not told: {reported}" if isinstance(reported, TanistError) else "told"}, waited)


def _pending_fences(context: StepContext) -> list[str]:
    return [
        each.topic
        for each in context.session.view().source_fences(context.intent.mirror)
        if each.status is FenceStatus.PENDING and each.topic in context.intent.names
    ]


def _seen(context: StepContext) -> dict[str, Any]:
    """Who still wrote while we watched, and what the source has that was not copied, earlier writes included."""
    source = context.source
    if isinstance(source, TanistError):
        return {"still_growing": None, "why": str(source)}
    watched = attempt(lambda: _watched(context, source))
    if isinstance(watched, TanistError):
        return {"still_growing": None, "why": str(watched)}
    grown, silent = watched
    return {"still_growing": _named(grown), "silent": silent, **_lacking(context, source)}


def _lacking(context: StepContext, source: Cluster) -> dict[str, Any]:
    by, view = context.clock.deadline(SOURCE_SECONDS), context.session.view()
    behind = attempt(lambda: left_behind(context.spec, view, ClusterSnapshot(cluster=source), by))
    if isinstance(behind, TanistError):
        return {"left_behind": None, "untold": str(behind)}
    ours = {at: count for at, count in behind.items() if at.topic in context.intent.names and count != 0}
    return {"left_behind": {str(at): n if isinstance(n, int) else str(n) for at, n in sorted(ours.items())}}


def _watched(context: StepContext, source: Cluster) -> tuple[set[TopicPartition], bool]:
    """Partitions that took a record, and whether none did for a whole window at last: as long as producers rest."""
    window, clock = context.patience.proof, context.clock
    watch = Watch(source.logs, context.intent.partitions)
    watch.look(clock.deadline(SOURCE_SECONDS))
    began = still = clock.monotonic()
    grown: set[TopicPartition] = set()
    while clock.monotonic() - still < window and clock.monotonic() - began < _WINDOWS * window:
        context.session.wait(min(_LOOK_SECONDS, window))
        seen = watch.look(clock.deadline(SOURCE_SECONDS))
        grown |= set(seen.data)
        still = clock.monotonic() if seen.data or seen.unreported else still
    return grown, clock.monotonic() - still >= window


def _named(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(at) for at in sorted(partitions)]


def _tell_source(context: StepContext) -> None:
    """A returning source must not resume its old life: its own state topic says that it was replaced, and where.

    Raises:
        TanistError: it does not answer, or we may not write there.
    """
    source = context.source
    if isinstance(source, TanistError):
        raise source
    by = context.clock.deadline(2 * SOURCE_SECONDS)
    source.topics.cluster_id(context.clock.deadline(SOURCE_SECONDS))
    with closing(source.open_store(STATE_TOPIC, context.intent.mirror, by, create=True)) as store:
        records: tuple[PromotionRecord, ...] = (
            *generations(context.intent, context.spec),
            *of_run(context.session.view(), context.intent),
        )
        if missing := tuple(unreported(store.catch_up(by), records)):
            store.append(missing, by)
