"""The route of a failover, one row a step: what it is called, what is true afterwards, and what makes it so.

`tanist failover run`, the command line and the DAG's tasks read this table; there is no other list of steps. A new step
is a row here, a postcondition in the domain and a module in `steps`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist.domain.failover import postconditions as after
from tanist.domain.failover.plan import past_return
from tanist.usecases.failover.steps import (
    canary,
    configs,
    drain,
    fence,
    generation,
    groups,
    hold,
    movers,
    opening,
    seal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent
    from tanist.usecases.failover.step import Done, StepContext


@dataclass(frozen=True, slots=True)
class Step:
    """`holds`: the postcondition, pure; the step is done when it says so. `act`: makes it so, as often as need be."""

    id: str
    title: str
    holds: Callable[[Intent, Facts], bool] = field(compare=False, repr=False)
    act: Callable[[StepContext], Done] = field(compare=False, repr=False)


ROUTE: Final = (
    Step("hold", "the mirror is locked: metadata and offset syncs wait", after.locked, hold.do),
    Step("fence", "producers are blocked at the source, or the source fence is pending", after.fenced, fence.do),
    Step("drain", "every record the source can still deliver is copied", after.drained, drain.do),
    Step("groups", "committed offsets of consumer groups are translated and committed", after.translated, groups.do),
    Step(
        "seal", "the mirror's producers are fenced for good (the point of no return)", after.producers_fenced, seal.do
    ),
    Step("generation", "the promotion is recorded and the topics have left the mirror", after.promoted, generation.do),
    Step("configs", "topic configurations match the source", after.configured, configs.do),
    Step("canary", "every topic accepted a test transaction, which was aborted", after.probed, canary.do),
    Step("open", "producers may write at the destination, the mirror may not", after.opened, opening.do),
    Step("movers", "the old source is notified and remaining producers are listed", after.notified, movers.do),
)
STEP_IDS: Final = tuple(step.id for step in ROUTE)
_BY_ID: Final = {step.id: step for step in ROUTE}
GROUPS: Final = _BY_ID["groups"]
"""Until the point of no return every call does it again: consumers of the source are not fenced."""
SEAL: Final = _BY_ID["seal"]


def route_to(until: str | None) -> tuple[Step, ...]:
    """The route up to and including the step `until`; None: all of it.

    Raises:
        Misconfigured: the route has no such step.
    """
    if until is None:
        return ROUTE
    if until not in _BY_ID:
        raise Misconfigured(f"a failover has no step {until!r}: {', '.join(STEP_IDS)}")
    return ROUTE[: ROUTE.index(_BY_ID[until]) + 1]


def remaining(intent: Intent, facts: Facts, until: str | None = None) -> tuple[Step, ...]:
    """What is left to do, up to and including the step `until`. Pure, so a run killed anywhere just asks again.

    Behind the point of no return forward is the only safe way: what lies before it is not looked at any more.

    Raises:
        Misconfigured: the route has no such step.
    """
    first = ROUTE.index(SEAL) if past_return(facts) else 0
    return tuple(step for step in route_to(until)[first:] if not step.holds(intent, facts))


def ids(steps: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(step.id for step in steps)
