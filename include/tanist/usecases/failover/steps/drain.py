"""What the source still gives is copied: planned to the very end, unplanned as far as it goes within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.plan import DRAIN
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.usecases.failover.work import Work


class DrainMissed(TimedOut):
    name = "DRAIN_MISSED"
    operator_action = "the fence is lifted and the mirror goes on; see which partitions lag, and why, then plan again"


class SourceLost(TimedOut):
    name = "SOURCE_LOST"
    operator_action = "`tanist failover abort`, then plan an unplanned failover"


def do(work: Work) -> Done:
    return _planned(work) if work.intent.mode is Mode.PLANNED else _unplanned(work)


def _planned(work: Work) -> Done:
    """Until destination end = source high watermark = last stable offset on every partition.

    Raises:
        DrainMissed: not in time; whoever runs the steps undoes the fence.
    """
    clock = work.run.clock
    by = clock.deadline(work.tools.patience.drain)
    while not DRAIN.holds(work.intent, work.look()):
        if work.facts.source is SourceState.SILENT:
            raise SourceLost(f"the source went silent before it was drained: {work.facts.source_reason}")
        if not by.left(clock.monotonic()):
            raise DrainMissed(_behind(work))
        work.wait()
    return Done(_told(work.facts))


def _unplanned(work: Work) -> Done:
    """While the source answers, partitions move, and the budget lasts."""
    clock = work.run.clock
    by = clock.deadline(work.tools.patience.budget)
    while by.left(clock.monotonic()) and _gives(work.look()):
        work.wait()
    work.mark("drain")
    return Done(_told(work.facts))


def _gives(facts: Facts) -> bool:
    return facts.source is not SourceState.SILENT and any(each.live and not each.drained for each in facts.partitions)


def _behind(work: Work) -> str:
    waited_for = frozenset(work.intent.partitions) - frozenset(work.intent.without_drain)
    late = [each for each in work.facts.partitions if each.partition in waited_for and not each.drained]
    named = ", ".join(f"{each.partition} by {each.at_risk}" for each in late[:5])
    held = "".join(
        f"; producer {each.producer_id} holds a transaction open on {each.partition} since {each.since} (ms)"
        for each in work.facts.transactions[:5]
    )
    return f"after {work.tools.patience.drain:.0f} s {len(late)} partition(s) are behind: {named}{held}"


def _told(facts: Facts) -> dict[str, Any]:
    cost = forecast(facts)
    ends = {str(each.partition): each.end for each in facts.partitions}
    return {"offsets_lost": cost.offsets_at_risk, "at_most": cost.at_most, "age_ms": cost.age_ms, "ends": ends}
