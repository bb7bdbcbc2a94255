"""What the source still gives is copied: planned to the very end, unplanned as far as it goes within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.plan import DRAIN
from tanist.usecases.failover.work import Done
from tanist.usecases.readers import SILENT_SECONDS

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.usecases.failover.work import Work


_SILENT_SECONDS: Final = 1.5 * SILENT_SECONDS
"""One look that finds nobody is not the end: a broker that freezes keeps whoever asks it waiting, and the next look
asks another one."""


class DrainMissed(TimedOut):
    name = "DRAIN_MISSED"
    operator_action = (
        "the source fence is lifted and the mirror resumes: find the lagging partitions with `tanist mirrors "
        "describe`, then plan again"
    )


class SourceLost(TimedOut):
    name = "SOURCE_LOST"
    operator_action = "undo it with `tanist failover abort`, then plan an unplanned failover"


def do(work: Work) -> Done:
    return _planned(work) if work.intent.mode is Mode.PLANNED else _unplanned(work)


def _planned(work: Work) -> Done:
    """Until destination end = source high watermark = last stable offset = true end on every partition.

    And until no transaction names one of them; markers at an end that is at rest need not be copied.

    Raises:
        DrainMissed: not in time; whoever runs the steps undoes the fence.
    """
    clock = work.context.clock
    by = clock.deadline(work.tools.patience.drain)
    heard = clock.monotonic()
    while not DRAIN.holds(work.intent, work.look()):
        if work.facts.source is not SourceState.SILENT:
            heard = clock.monotonic()
        elif clock.monotonic() - heard > _SILENT_SECONDS:
            raise SourceLost(f"the source stopped answering before it was drained: {work.facts.source_reason}")
        if not by.left(clock.monotonic()):
            raise DrainMissed(_behind(work))
        work.wait()
    return Done(_report(work))


def _unplanned(work: Work) -> Done:
    """While the source answers, partitions move, and the budget lasts."""
    clock = work.context.clock
    by = clock.deadline(work.tools.patience.budget)
    while by.left(clock.monotonic()) and _gives(work.look()):
        work.wait()
    work.mark("drain")
    return Done(_report(work))


def _gives(facts: Facts) -> bool:
    return facts.source is not SourceState.SILENT and any(each.live and not each.drained for each in facts.partitions)


def _behind(work: Work) -> str:
    waited_for = frozenset(work.intent.partitions) - frozenset(work.intent.without_drain)
    late = [each for each in work.facts.partitions if each.partition in waited_for and not each.drained]
    named = ", ".join(_lag(each) for each in late[:5])
    held = "".join(
        f"; producer {each.producer_id} has had a transaction open on {each.partition} since {each.since} ms"
        for each in (*work.facts.transactions, *work.facts.named)[:5]
    )
    if work.facts.transactions_told is None:
        held += f"; the source does not report its transactions: {work.facts.transactions_reason}"
    return f"{len(late)} partition(s) are still behind after {work.tools.patience.drain:.0f} s: {named}{held}"


def _lag(each: PartitionFacts) -> str:
    live = each.live
    stalled = live is not None and live.log_end is not None and live.log_end > live.high_watermark
    return f"{each.partition} by {each.at_risk}" + (" (not yet on all in-sync replicas)" if stalled else "")


def _report(work: Work) -> dict[str, Any]:
    cost = forecast(work.intent, work.facts)
    ends = {str(each.partition): each.end for each in work.facts.partitions}
    return {"offsets_lost": cost.offsets_at_risk, "estimate": cost.estimate, "age_ms": cost.age_ms, "ends": ends}
