"""Directly before the point of no return: is it still what was approved, and are the copies still copies?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.failover.limitations import news
from tanist.domain.failover.plan import DRAIN, FENCE, Approved
from tanist.usecases.failover.work import NotYet

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


class CopyChanged(NotPermitted):
    name = "COPY_CHANGED"
    operator_action = "nothing is sealed yet: `tanist failover abort` undoes what was done; then plan again"


def last_look(work: Work) -> None:
    """Looks at both clusters anew; what was seen before the step, or before somebody froze, does not count.

    Raises:
        CopyChanged: something speaks against it that the approver has not accepted, such as records that were deleted
            from the copy, or more offsets at risk than are tolerated.
        NotYet: a planned failover is not fenced and drained any more; the steps before are done again.
    """
    facts = work.look()
    if found := news(Approved.read(work.record.shown), facts):
        raise CopyChanged("; ".join(f"{each.name}: {each.detail}" for each in found))
    if work.intent.mode is Mode.PLANNED:
        for step in (FENCE, DRAIN):
            if not step.holds(work.intent, facts):
                raise NotYet(f"{step.title}: this holds no more")
