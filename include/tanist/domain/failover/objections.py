"""Does an approval still permit its run? What was accepted, beside the limitations as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.approval.choosing import time_objections
from tanist.domain.checks import named
from tanist.domain.failover.limitations import limitations
from tanist.domain.failover.reserve import MAY_BE_REUSED, SEEN_LATER
from tanist.domain.limitation import Limitation

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.domain.names import EpochMs

_NEVER_NEWS: Final = frozenset({"RUN_UNFINISHED", "RECORDS_AT_RISK", MAY_BE_REUSED, SEEN_LATER})
"""A run detects the first itself, under the lock. Of the second an approver accepts the number, the loss tolerance, and
not the name. The reserve is best effort, so nothing about it stops a run: the last two concern the plan."""


def news(approved: ApprovedPlan, facts: Facts) -> tuple[Limitation, ...]:
    """Limitations of `facts` that the approver has not accepted; progress, improvements and time are none."""
    found = (each for each in limitations(approved.intent, facts) if each.name not in _NEVER_NEWS)
    return tuple(each for each in found if each.blocks or not approved.accepts(each))


def accepted(approved: ApprovedPlan, facts: Facts) -> tuple[Limitation, ...]:
    """What an approver accepts by the words of a plan, by name, each with what it means now where it still stands."""
    now = {each.name: each for each in limitations(approved.intent, facts)}
    return tuple(now.get(name) or _gone(name, approved) for name in sorted(approved.limitations))


def _gone(name: str, approved: ApprovedPlan) -> Limitation:
    about = approved.about.get(name, frozenset())
    return Limitation(name, f"not so now; accepted of {named(sorted(about), ', ')}" if about else "not so now")


def only_for_now(reasons: tuple[Limitation, ...]) -> bool:
    """Whether everything against it is that a cluster does not tell for the moment: that is waited for."""
    return bool(reasons) and all(each.momentary for each in reasons)


def objections(
    approval: Approval,
    approved: ApprovedPlan,
    facts: Facts,
    route: tuple[str, ...],
    now: EpochMs,
    brokers_time: EpochMs | None,
) -> tuple[Limitation, ...]:
    """Why `approval` no longer permits the run; empty: it does.

    `route`: the step ids of this version. `now`, `brokers_time`: as in `time_objections`.
    """
    found = [*news(approved, facts), *time_objections(approval, now, brokers_time)]
    if approved.steps != route:
        found.append(Limitation("ANOTHER_ROUTE", "another version of Tanist made the plan: plan again", blocks=True))
    return tuple(sorted(found))
