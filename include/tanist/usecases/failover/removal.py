"""`tanist mirrors remove`: taking topics out of a mirror is a failover of them, and needs an approved plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.approval.choosing import choose
from tanist.domain.approval.entries import ApprovalUsed, NoApproverTopic, NotApproved, NotPermitted, approvals
from tanist.domain.checks import Mode
from tanist.domain.failover.objections import only_for_now
from tanist.domain.failover.plan import ApprovedPlan
from tanist.usecases.approvals import out_of_time
from tanist.usecases.failover import planning, unfinished_runs
from tanist.usecases.failover.approval_gate import AnotherPlan, PlanBlocked, must_be_covered, read_words
from tanist.usecases.failover.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.plan import Intent
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.planning import FailoverRequest, Planned
    from tanist.usecases.mirror import OpenMirror


def plan(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> Planned:
    """Planned where that can be; else unplanned, which takes by name what no drain mends."""
    found = planning.plan(replace(request, mode=Mode.PLANNED), clusters, command)
    if not found.blocked or only_for_now(tuple(each for each in found.plan.limitations if each.blocks)):
        return found
    return planning.plan(replace(request, mode=Mode.UNPLANNED), clusters, command)


def plan_and_keep(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> Planned:
    """As `plan`; its words are stored, see `planning.plan_and_keep`."""
    return planning.kept(plan(request, clusters, command), clusters, command)


def approved_plan(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> str:
    """The plan to run: one that is unfinished for just these topics, else the latest approved one of just these topics.

    In whatever mode it was approved, that one runs if it covers what is so now.

    Raises:
        NotApproved: with the command that approves the plan that can be made now, which is kept, and what an approved
        one does not cover.
        AnotherUnfinished, MustBeFinished: another one is unfinished.
        NotToldNow: a cluster does not tell for the moment.
    """
    if (unfinished := _unfinished(request, clusters, command)) is not None:
        return unfinished
    uncovered = ""
    for each, words in _approved(request, clusters, command):
        try:
            must_be_covered(each, words, clusters, command)
        except (AnotherPlan, PlanBlocked) as why:
            uncovered = uncovered or f"; the approved plan {each} cannot be run: {why.reason}"
        else:
            return each
    found = plan_and_keep(request, clusters, command)
    planning.must_not_be_blocked(found)
    raise NotApproved(
        f"plan {found.plan.hash} of mirror {clusters.spec.mirror!r} is not approved: {found.approve_command}{uncovered}"
    )


def _approved(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> Iterator[tuple[str, str]]:
    """The plans of just these topics that have a usable approval, each with its words; the latest approval first."""
    mirror, store = clusters.spec.mirror, clusters.destination.approvals
    observer = Observer(clusters=clusters, context=command)
    view = observer.view()
    names = [each.topic for each in planning.chosen(view, clusters, request.topics)]
    try:
        entries = store.all(command.by)
    except NoApproverTopic:
        return
    ours = [each.plan for each in reversed(approvals(entries)) if each.mirror == mirror]
    for plan_hash in dict.fromkeys(ours):
        try:
            chosen = choose(entries, view.failovers(mirror), mirror, plan_hash)
            intent = read_words(plan_hash, chosen.plan_json, clusters).intent
        except (NotApproved, ApprovalUsed, NotPermitted):
            continue
        if _is_asked_for(intent, request, names) and not out_of_time(chosen, clusters, command):
            yield plan_hash, chosen.plan_json


def _is_asked_for(intent: Intent, request: FailoverRequest, names: list[str]) -> bool:
    return (sorted(intent.names), intent.groups, intent.reverse) == (sorted(names), request.groups, request.reverse)


def _unfinished(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> str | None:
    observer = Observer(clusters=clusters, context=command)
    held = observer.view().unfinished(clusters.spec.mirror)
    if held is None:
        return None
    as_begun = replace(
        request, mode=ApprovedPlan.read(held.plan_json).intent.mode
    )  # it was chosen for whoever began it
    unfinished_runs.must_be_asked_for(held, as_begun, clusters, command)
    return held.plan
