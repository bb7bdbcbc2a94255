"""Who has not moved yet: partitions of the source that still grow, and fences that are owed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.errors import TanistError
from tanist.domain.fences import FenceStatus
from tanist.domain.records import fenced
from tanist.usecases.failover.clusters import SOURCE_SECONDS, Source
from tanist.usecases.failover.observe import attempt, known
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """A list, no judgement; `tanist failover status` makes it again."""
    found = listing(work)
    work.mark("movers")
    return Done(found)


def listing(work: Work) -> dict[str, Any]:
    owed = [
        each.topic
        for each in fenced(work.observer.view(), work.intent.mirror)
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
