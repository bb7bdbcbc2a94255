"""Directly before the point of no return: is it still what was approved, and are the copies still copies?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.failover.objections import news, only_for_now
from tanist.domain.failover.postconditions import drained, fenced
from tanist.usecases.failover.permissions import ensure_permissions
from tanist.usecases.failover.step import NotYet

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.usecases.failover.step import StepContext


class CopyChanged(NotPermitted):
    name = "COPY_CHANGED"
    operator_action = "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again"


def last_look(context: StepContext) -> Facts:
    """What both clusters are like now: what was seen before the step, or before somebody froze, does not count.

    Raises:
        AuthorizationFailed: this login lacks what the steps behind that point need.
        CopyChanged: something speaks against it that the approver has not accepted, such as records that were deleted
            from the copy, or more offsets at risk than are tolerated.
        NotYet: a planned failover is not fenced and drained any more, and the steps before are done again; or a cluster
            does not tell for the moment.
    """
    ensure_permissions(context.intent, context.clusters, context.command)
    facts = context.look()
    if found := news(context.approved, facts):
        said = "; ".join(f"{each.name}: {each.detail}" for each in found)
        raise NotYet(said) if only_for_now(found) else CopyChanged(said)
    if context.intent.mode is Mode.PLANNED:
        if not fenced(context.intent, facts):
            raise NotYet("producers are no longer blocked at the source")
        if not drained(context.intent, facts):
            raise NotYet("the copy is behind the source again")
    return facts
