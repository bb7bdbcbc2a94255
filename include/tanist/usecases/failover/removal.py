"""`tanist mirrors remove`: taking topics out of a mirror is a failover of them, and needs an approved plan."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.approving import ApprovalUsed, NotApproved, approvals, approved, choose, time_objections
from tanist.domain.failover.objections import news, only_for_now
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
    if not found.blocked or only_for_now(tuple(each for each in found.plan.limitations if each.blocks)):
        return found
    return planning.plan(replace(request, mode=Mode.UNPLANNED), clusters, command)


def plan_and_keep(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> Planned:
    """As `plan`; its words are stored, see `planning.plan_and_keep`."""
    return planning.kept(plan(request, clusters, command), clusters, command)


def approved_plan(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> str:
    """The plan to run: one that is unfinished for just these topics, else the latest one that is approved for them.

    It must be of the mode that can be planned now, and cover what is so now.

    Raises:
        NotApproved: with the command that approves the plan that can be made now, which is kept.
        AnotherUnfinished, MustBeFinished: another one is unfinished.
    """
    if (unfinished := _unfinished(request, clusters, command)) is not None:
        return unfinished
    found = plan(request, clusters, command)
    if (approved := _approved(found, clusters, command)) is not None:
        return approved
    found = planning.kept(found, clusters, command)
    planning.must_not_be_blocked(found)
    raise NotApproved(
        f"plan {found.plan.hash} of mirror {clusters.spec.mirror!r} is not approved: {found.approve_command}"
    )


def _approved(found: Planned, clusters: FailoverContext, command: CommandContext) -> str | None:
    """The plan of the latest usable approval that was given to the same intent as that of `found`."""
    mirror = clusters.spec.mirror
    entries = clusters.destination.approvals.all(command.by)
    with closing(Observer(clusters=clusters, context=command)) as observer:
        runs = observer.view().failovers(mirror)
    for entry in reversed(approvals(entries)):
        if entry.mirror != mirror:
            continue
        try:
            chosen = choose(entries, runs, mirror, entry.plan)
            words = approved(chosen)
        except (NotApproved, ApprovalUsed):
            continue
        tolerant = replace(words.intent, loss_tolerance=found.plan.intent.loss_tolerance)
        timely = not time_objections(chosen, command.clock.now(), None)
        if timely and tolerant == found.plan.intent and not news(words, found.facts):
            return entry.plan
    return None


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
