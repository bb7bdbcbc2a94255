"""The old source is told, and who has not moved yet is listed. After writes are open: nobody waits for this."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.fences import FenceStatus
from tanist.domain.generations import untold
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failover.clusters import SOURCE_SECONDS, Source
from tanist.usecases.failover.observe import attempt, known
from tanist.usecases.failover.steps.generation import generations
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """A list, no judgement; `tanist failover status` makes it again."""
    found = listing(work)
    told = attempt(lambda: _tell_source(work)) if found["still_growing"] is not None else TimedOut(str(found["why"]))
    work.tools.checkpoint("movers:told")
    work.mark("movers")
    return Done(found | {"source": f"not told: {told}" if isinstance(told, TanistError) else "told"})


def listing(work: Work) -> dict[str, Any]:
    owed = [
        each.topic
        for each in work.observer.view().source_fences(work.intent.mirror)
        if each.status is FenceStatus.OWED and each.topic in work.intent.names
    ]
    source = work.clusters.source
    if not isinstance(source, Source):
        return {"fences_owed": owed, "still_growing": None, "why": str(source)}
    by = work.run.clock.deadline(SOURCE_SECONDS)
    ends = attempt(lambda: source.side.logs.ends(work.intent.partitions, by))
    if isinstance(ends, TanistError):
        return {"fences_owed": owed, "still_growing": None, "why": str(ends)}
    now = known(ends)
    last = {each.partition: each.known.high_watermark for each in work.facts.partitions if each.known}
    growing = [str(at) for at, found in now.items() if at in last and found.high_watermark > last[at]]
    return {"fences_owed": owed, "still_growing": growing}


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
        if missing := tuple(untold(store.catch_up(by), generations(work))):
            store.append(missing, by)
