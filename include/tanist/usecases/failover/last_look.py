"""Directly before the point of no return: is it still what was approved, and are the copies still copies?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import AuthorizationFailed
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.failover.limitations import news
from tanist.domain.failover.plan import DRAIN, FENCE, ApprovedPlan
from tanist.usecases.failover.work import NotDrainedYet
from tanist.usecases.rights import promotion_needs, refusals
from tanist.usecases.sides import first_contact

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work

_MOST_NAMED: Final = 5


class CopyChanged(NotPermitted):
    name = "COPY_CHANGED"
    operator_action = "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again"


def last_look(work: Work) -> None:
    """Looks at both clusters anew; what was seen before the step, or before somebody froze, does not count.

    Raises:
        AuthorizationFailed: this login lacks what the steps behind that point need.
        CopyChanged: something speaks against it that the approver has not accepted, such as records that were deleted
            from the copy, or more offsets at risk than are tolerated.
        NotYet: a planned failover is not fenced and drained any more; the steps before are done again.
    """
    must_have_rights(work)
    facts = work.look()
    if found := news(ApprovedPlan.read(work.record.plan_json), facts):
        raise CopyChanged("; ".join(f"{each.name}: {each.detail}" for each in found))
    if work.intent.mode is Mode.PLANNED:
        for step in (FENCE, DRAIN):
            if not step.holds(work.intent, facts):
                raise NotDrainedYet(f"this no longer holds: {step.title}")


def must_have_rights(work: Work) -> None:
    """Whether this login may do what a run needs of the destination where there is no way back.

    Raises:
        AuthorizationFailed: it names the rights that are certainly missing. What brokers do not tell is left to the
        steps.
    """
    side, run = work.clusters.destination, work.context
    if missing := refusals(side, promotion_needs(work.intent.names), first_contact(run)):
        more = f"; and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        raise AuthorizationFailed("; ".join(each.reason for each in missing[:_MOST_NAMED]) + more)
