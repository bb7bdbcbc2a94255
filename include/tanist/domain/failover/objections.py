"""Does an approval still permit its run? What was accepted, beside the limitations as they are now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.failover import loss
from tanist.domain.failover.limitations import limitations
from tanist.domain.failover.plan import Limitation
from tanist.domain.failover.reserve import MAY_BE_REUSED, named_for_age

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan, Intent
    from tanist.domain.names import EpochMs

_BOUND_BY_NUMBER: Final = frozenset({"RECORDS_AT_RISK"})
"""An approver accepts the number of offsets, the loss tolerance, and not the name."""
_FOUND_BY_A_RUN: Final = frozenset({"RUN_UNFINISHED"})
"""A run detects these itself, under the lock."""
_OLD_AGE: Final = frozenset({"RECORDS_AT_RISK_UNKNOWN", "GROUP_POSITIONS_OLD"})
"""Time alone turns RECORDS_UNSEEN into these, so an approval that accepts it covers them."""


def news(approved: ApprovedPlan, facts: Facts) -> tuple[Limitation, ...]:
    """Limitations of `facts` that the approver has not accepted; progress and improvements are none."""
    unseen = "RECORDS_UNSEEN" in approved.limitations
    besides = _BOUND_BY_NUMBER | (_old_age(approved.intent, facts) if unseen else frozenset())
    aged = named_for_age(approved.intent, facts, approved.reserve_to) if unseen else frozenset()
    found = limitations(approved.intent, facts, approved.reserve_to)
    ours = (each for each in found if each.name not in _FOUND_BY_A_RUN)
    return tuple(e for e in ours if e.blocks or not (e.name in besides or _accepted(approved, e, aged)))


def _accepted(approved: ApprovedPlan, found: Limitation, aged: frozenset[str]) -> bool:
    """Whether the approver has accepted it.

    `aged`: partitions whose reserve is complete by an estimate that was recent when it was approved. A reserve that is
    not complete any more must be accepted by name, whatever the reason.
    """
    if found.name != MAY_BE_REUSED:
        return approved.accepts(found)
    about = tuple(name for name in found.about if name not in aged)
    return not about or approved.accepts(replace(found, about=about))


def _old_age(intent: Intent, facts: Facts) -> frozenset[str]:
    """The limitations that age explains; the end of a partition that is not known at all is not one of them."""
    return _OLD_AGE if loss.at_risk(intent, facts) is not None else _OLD_AGE - {"RECORDS_AT_RISK_UNKNOWN"}


def objections(
    approval: Approval,
    approved: ApprovedPlan,
    facts: Facts,
    route: tuple[str, ...],
    now: EpochMs,
    brokers_time: EpochMs | None,
) -> tuple[Limitation, ...]:
    """Why `approval` no longer permits the run; empty: it does.

    `route`: the step ids of this version. `now`: our clock, `brokers_time`: the latest append time of the brokers, both
    ms since 1970. An approval expires by the later of the two.
    """
    found = list(news(approved, facts))
    if approved.steps != route:
        found.append(Limitation("ANOTHER_ROUTE", "another version of Tanist made the plan: plan again", blocks=True))
    theirs = max(approval.at, brokers_time or approval.at)
    if (latest := max(now, theirs)) >= approval.expires_at:
        found.append(
            Limitation(
                "APPROVAL_EXPIRED", f"valid until {approval.expires_at} ms, now is {latest} ms: approve it again"
            )
        )
    if now < theirs - approval.SKEW_MS:
        found.append(
            Limitation("CLOCK_BEHIND", f"correct this host's clock: it shows {now} ms, the brokers' showed {theirs} ms")
        )
    return tuple(sorted(found))
