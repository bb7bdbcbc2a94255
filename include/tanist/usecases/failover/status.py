"""`tanist failover status`: runs on record, what is left of them, and who has not moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.failover.invariants import check_invariants
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.pending_reversal import pending_reversal
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE, STEP_IDS

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.invariants import Breach
    from tanist.domain.pending_reversal import PendingReversal
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """`left`, ids of steps in order, and `broken` are what the facts say now; `facts` None: the run is over."""

    record: FailoverRun
    left: tuple[str, ...]
    facts: Facts | None
    age_ms: int
    broken: tuple[Breach, ...] = ()
    reversal: PendingReversal | None = None
    """Of the last run: the reversal after it, or another one, that is left to be completed."""


def runs(clusters: OpenMirror, command: CommandContext) -> tuple[RunSeen, ...]:
    """All runs of a mirror, the latest last."""
    observer = Observer(clusters=clusters, context=command)
    view = observer.view()
    found = sorted(view.failovers(clusters.spec.mirror), key=lambda run: run.started_at)
    seen = tuple(_seen(record, observer, command) for record in found)
    left = pending_reversal(view, clusters.spec.mirror)
    return (*seen[:-1], replace(seen[-1], reversal=left)) if seen and left is not None else seen


def _seen(record: FailoverRun, observer: Observer, command: CommandContext) -> RunSeen:
    approved_plan = ApprovedPlan.read(record.plan_json)
    age = max(0, command.clock.now() - record.at)
    if record.status is not RunStatus.RUNNING:
        return RunSeen(record=record, left=() if record.status is RunStatus.DONE else STEP_IDS, facts=None, age_ms=age)
    intent = approved_plan.intent
    facts = observer.look_for(intent, record.plan)
    left = ROUTE.left(intent, facts)
    return RunSeen(record=record, left=left, facts=facts, age_ms=age, broken=check_invariants(facts))


def record(clusters: OpenMirror, plan: str, command: CommandContext) -> FailoverRun | None:
    """What is on record of the run of `plan`; None: it never began."""
    observer = Observer(clusters=clusters, context=command)
    return observer.view().failover(clusters.spec.mirror, plan)
