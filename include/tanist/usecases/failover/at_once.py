"""`tanist failover run --reason`: a kept plan is approved by the command that runs it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.usecases.approvals import approve_at_once, permit
from tanist.usecases.failover import planning
from tanist.usecases.failover.approval_gate import FAILOVERS

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Approval
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.planning import Show
    from tanist.usecases.mirror import OpenMirror


def approve_to_run(
    plan: str, clusters: OpenMirror, command: CommandContext, *, terms: ApprovalTerms, show: Show | None = None
) -> Approval | None:
    """Approve the kept plan with this hash; None: it is approved, or its run has begun or is done.

    A run that has begun goes on with the approval that it has.

    Raises:
        FourEyes: one command must not approve a plan and run it. Otherwise as `planning.approve`; nothing was changed.
    """
    mirror, there = clusters.spec.mirror, clusters.destination
    view = there.state(STATE_TOPIC, command.by)
    held = view.failover(mirror, plan)
    if held is not None and held.status is not RunStatus.ABORTED:
        return None
    where = ("--destination", there.name)
    return approve_at_once(
        lambda: permit(FAILOVERS, plan, view.failovers(mirror), clusters, command),
        lambda: planning.approve(plan, None, clusters, command, terms=terms, show=show),
        (
            shlex.join(("tanist", "failover", "approve", mirror, plan, *where, "--reason", terms.reason)),
            shlex.join(("tanist", "failover", "run", mirror, *where, "--plan", plan)),
        ),
        command,
    )
