"""The decision about rescued records that somebody has approved and nobody has carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.answers import attempt
from tanist.domain.approval.choosing import choose, time_objections
from tanist.domain.approval.entries import approvals
from tanist.domain.errors import TanistError
from tanist.domain.failback.decision import DecisionPlan, decided_tails
from tanist.domain.failback.pending import rescued_tails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.approval.entries import Entry
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.state_view import StateView


def approved_decision(view: StateView, mirror: MirrorName, entries: Sequence[Entry], now: EpochMs) -> str:
    """The hash of the approved decision that fits the rescued tails, the latest one; empty: there is none."""
    if not (rescued := rescued_tails(view, mirror)):
        return ""
    for each in reversed(approvals(entries)):
        if each.mirror != mirror or not each.genuine:
            continue
        try:
            plan = DecisionPlan.read(each.plan_json)
        except (ValueError, KeyError, TypeError):
            continue
        fits = plan.tails == decided_tails([tails for tails in rescued if tails.topic in plan.topics])
        found = attempt(lambda of=each: choose(entries, view.decisions(mirror), mirror, of.plan))  # type: ignore[misc]
        if fits and not isinstance(found, TanistError) and not time_objections(found, now, None):
            return each.plan
    return ""
