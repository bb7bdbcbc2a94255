"""A reversal that was approved and is not done: the mirror has failed over and does not copy to its old source yet."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tanist.domain.checks import Check, Verdict
from tanist.domain.circle import locate
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MoveStatus

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import FailoverRun
    from tanist.domain.state_view import StateView


class ReversalStatus(StrEnum):
    """PENDING: approved with a failover that is done, not begun. MOVING: begun; the mirror is locked until its end.

    WITHDRAWING: what was changed is being put back. WITHDRAWN: that is done; the approval of the failover is used.
    """

    PENDING, MOVING = "PENDING", "MOVING"
    WITHDRAWING, WITHDRAWN = "WITHDRAWING", "WITHDRAWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReversal:
    """`plan`: of the failover, if PENDING, else of the reversal. `run`: the failover that has approved it, too.

    `next_command`: completes it without another approval; if it is WITHDRAWN, shows the plan to approve.
    """

    status: ReversalStatus
    plan: str
    approver: str
    next_command: str
    run: FailoverRun | None = None

    def __str__(self) -> str:
        return f"the reversal is {self.status} (plan {self.plan}, approved by {self.approver}): `{self.next_command}`"


def pending_reversal(view: StateView, mirror: MirrorName) -> PendingReversal | None:
    """The reversal of a mirror that is to be completed. `view`: of the state topic where it was failed over to."""
    place = locate(mirror, view)
    if place.spec is None:
        return None
    run = _with_reversal(place.takeover)
    where = ("--destination", place.spec.destination)
    move, command = place.move, shlex.join(("tanist", "mirrors", "reverse", mirror, *where))
    if move is not None and (place.arrival or place.departure):
        return PendingReversal(
            status=ReversalStatus(move.status), plan=move.plan, approver=move.approver, next_command=command, run=run
        )
    if run is None:
        return None
    if move is not None and move.status is MoveStatus.WITHDRAWN and run.approval in move.approvals_used:
        return PendingReversal(
            status=ReversalStatus.WITHDRAWN,
            plan=move.plan,
            approver=move.approver,
            next_command=f"{command} --dry-run",
        )
    return PendingReversal(
        status=ReversalStatus.PENDING,
        plan=run.plan,
        approver=run.approver,
        next_command=shlex.join(("tanist", "failover", "run", mirror, *where, "--plan", run.plan)),
        run=run,
    )


def _with_reversal(run: FailoverRun | None) -> FailoverRun | None:
    """`run`, if it was approved with the reversal after it."""
    plan = plan_of(run) if run is not None else None
    return run if plan is not None and plan.intent.reverse else None


def reversal_check(found: PendingReversal | None) -> Check:
    """Whether an approved reversal is left to be completed: until then the new primary is not mirrored."""
    return Check(
        name="reversal",
        verdict=Verdict.PASS if found is None else Verdict.FAIL,
        observed="none pending" if found is None else str(found.status),
        limit="none pending",
        reason="" if found is None else str(found),
    )
