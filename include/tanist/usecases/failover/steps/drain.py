"""What the source still gives is copied: planned to the very end, unplanned as far as it goes within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.invariants import drained
from tanist.domain.names import iso_time
from tanist.usecases.command import SILENT_SECONDS
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.usecases.failover.step import StepContext


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


def do(context: StepContext) -> Done:
    return _planned(context) if context.intent.mode is Mode.PLANNED else _unplanned(context)


def _planned(context: StepContext) -> Done:
    """Until destination end = source high watermark = last stable offset = true end on every partition.

    And until no transaction names one of them; markers at an end that is at rest need not be copied.

    Raises:
        DrainMissed: not in time; whoever runs the steps undoes the fence.
    """
    clock = context.clock
    by = clock.deadline(context.patience.drain)
    heard = clock.monotonic()
    while not drained(context.intent, facts := context.look()):
        if facts.source.state is not SourceState.SILENT:
            heard = clock.monotonic()
        elif clock.monotonic() - heard > _SILENT_SECONDS:
            raise SourceLost(f"the source stopped answering before it was drained: {facts.source.reason}")
        if not by.left(clock.monotonic()):
            raise DrainMissed(_behind(context.intent, facts, context.patience.drain))
        context.session.wait()
    return Done(_detail(context.intent, facts), facts=facts)


def _unplanned(context: StepContext) -> Done:
    """While the source answers, partitions move, and the budget lasts."""
    clock = context.clock
    by = clock.deadline(context.patience.budget)
    facts = context.facts
    while by.left(clock.monotonic()) and _gives(facts := context.look()):
        context.session.wait()
    context.session.mark("drain")
    return Done(_detail(context.intent, facts))


def _gives(facts: Facts) -> bool:
    return facts.source.state is not SourceState.SILENT and any(
        each.live and not each.drained for each in facts.partitions
    )


def _behind(intent: Intent, facts: Facts, seconds: float) -> str:
    waited_for = frozenset(intent.partitions) - frozenset(intent.without_drain)
    late = [each for each in facts.partitions if each.partition in waited_for and not each.drained]
    named = ", ".join(_lag(each) for each in late[:5])
    held = "".join(
        f"; producer {each.producer_id} has had a transaction open on {each.partition} since {iso_time(each.since)}"
        for each in (*facts.source.transactions, *facts.source.named)[:5]
    )
    if facts.source.transactions_told is None:
        held += f"; the source does not report its transactions: {facts.source.transactions_reason}"
    return f"{len(late)} partition(s) are still behind after {seconds:.0f} s: {named}{held}"


def _lag(each: PartitionFacts) -> str:
    live = each.live
    stalled = live is not None and live.log_end is not None and live.log_end > live.high_watermark
    behind = "an unknown number" if each.at_risk is None else each.at_risk
    return f"{each.partition} by {behind}" + (" (not yet on all in-sync replicas)" if stalled else "")


def _detail(intent: Intent, facts: Facts) -> dict[str, Any]:
    cost = forecast(intent, facts)
    ends = {str(each.partition): each.end for each in facts.partitions}
    return {"offsets_lost": cost.offsets_at_risk, "estimate": cost.estimate, "age_ms": cost.age_ms, "ends": ends}
