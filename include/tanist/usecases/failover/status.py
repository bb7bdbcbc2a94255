"""`tanist failover status`: runs on record, what is left of them, and who has not moved."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.failover.plan import ROUTES, ApprovedPlan, Step, remaining
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.work import wanted_topics

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.usecases.failover.clusters import FailoverContext
    from tanist.usecases.sides import CommandContext


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """`left` is what the facts say now; `facts` None: the run is over."""

    record: FailoverRun
    steps: tuple[Step, ...]
    left: frozenset[str]
    facts: Facts | None
    age_ms: int


def runs(clusters: FailoverContext, command: CommandContext) -> tuple[RunSeen, ...]:
    """All runs of a mirror, the latest last."""
    with closing(Observer(clusters=clusters, context=command)) as observer:
        view = observer.view()
        found = sorted(view.failovers(clusters.spec.mirror), key=lambda run: run.started_at)
        return tuple(_seen(record, observer, command) for record in found)


def _seen(record: FailoverRun, observer: Observer, command: CommandContext) -> RunSeen:
    approved_plan = ApprovedPlan.read(record.plan_json)
    steps, age = ROUTES[approved_plan.intent.mode], max(0, command.clock.now() - record.at)
    if record.status is not RunStatus.RUNNING:
        done = record.status is RunStatus.DONE
        left = frozenset[str]() if done else frozenset(step.id for step in steps)
        return RunSeen(record=record, steps=steps, left=left, facts=None, age_ms=age)
    facts = observer.look(wanted_topics(observer.view(), approved_plan.intent), record.plan)
    left = frozenset(step.id for step in remaining(approved_plan.intent, facts))
    return RunSeen(record=record, steps=steps, left=left, facts=facts, age_ms=age)


def record(clusters: FailoverContext, plan: str, command: CommandContext) -> FailoverRun | None:
    """What is on record of the run of `plan`; None: it never began."""
    with closing(Observer(clusters=clusters, context=command)) as observer:
        return observer.view().failover(clusters.spec.mirror, plan)
