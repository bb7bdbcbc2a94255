"""`tanist mirrors remove`: taking topics out of a mirror is a failover of them, and needs an approved plan."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.approving import NotApproved, choose
from tanist.domain.failover.plan import ApprovedPlan
from tanist.usecases.failover import adopting, planning
from tanist.usecases.failover.observe import Observer

if TYPE_CHECKING:
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.usecases.failover.planning import FailoverRequest, Planned


def plan(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> Planned:
    """Planned where that can be; else unplanned, which takes by name what no drain mends."""
    found = planning.plan(replace(request, mode=Mode.PLANNED), clusters, command)
    return found if not found.blocked else planning.plan(replace(request, mode=Mode.UNPLANNED), clusters, command)


def approved_plan(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> str:
    """The plan to run: one that is unfinished for just these topics, else the one that the facts make, if approved.

    Raises:
        NotApproved: with the command that approves it. AnotherUnfinished, MustBeFinished: another one is unfinished.
    """
    if (unfinished := _unfinished(request, clusters, command)) is not None:
        return unfinished
    found = plan(request, clusters, command)
    mirror, made = clusters.spec.mirror, found.plan
    approvals = clusters.destination.approvals.all(command.by)
    with closing(Observer(clusters=clusters, context=command)) as observer:
        runs = observer.view().failovers(mirror)
    try:
        choose(approvals, runs, mirror, made.hash)
    except NotApproved as missing:
        topics = " ".join(f"--topic '{text}'" for text in request.include)
        how = f"tanist failover approve {mirror} {made.hash} --mode {made.intent.mode} {topics} --reason ..."
        raise NotApproved(f"{missing.reason}: {how}") from missing
    return made.hash


def _unfinished(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> str | None:
    with closing(Observer(clusters=clusters, context=command)) as observer:
        held = observer.view().unfinished(clusters.spec.mirror)
    if held is None:
        return None
    as_begun = replace(
        request, mode=ApprovedPlan.read(held.plan_json).intent.mode
    )  # it was chosen for whoever began it
    adopting.must_be_asked_for(held, as_begun, clusters, command)
    return held.plan
