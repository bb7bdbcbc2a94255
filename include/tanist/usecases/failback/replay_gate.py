"""The gate of a replay: the approval of its plan, and whether the rescued tails still are what was approved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import named
from tanist.domain.errors import AuthorizationFailed, Refused
from tanist.domain.failback.decision import DecisionPlan, TailAction, decided_tails
from tanist.domain.failback.pending import rescued_tails
from tanist.domain.failover.approving import NotApproved, NotPermitted, approvals
from tanist.domain.records import RunStatus
from tanist.domain.tails import TailDecision
from tanist.usecases.approvals import PlanKind, permit
from tanist.usecases.failback.quarantined import ensure_present

if TYPE_CHECKING:
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import TopicTails
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


class DecisionRefused(NotPermitted):
    name = "DECISION_NOT_PERMITTED"
    operator_action = "run `tanist failback decide` again and have the new plan approved; nothing was changed"


class DecisionUnfinished(Refused):
    name = "DECISION_UNFINISHED"
    operator_action = "finish it with `tanist failback replay NAME --plan HASH` first; nothing was changed"


class ReplayDenied(AuthorizationFailed):
    name = "REPLAY_DENIED"
    operator_action = (
        "a failover denies the mirror's login WRITE on its topics: run this with another login that may write to them, "
        "to __mirror_state and to the transactional id of the mirror"
    )


DECISIONS: Final = PlanKind(
    read=DecisionPlan.read,
    unreadable="is not one of a decision about tails",
    fits=lambda plan, spec: (
        (plan.mirror, plan.mirror_id, plan.source_cluster_id, plan.destination_cluster_id)
        == (spec.mirror, spec.id, spec.source_cluster_id, spec.destination_cluster_id)
    ),
    unfit="the plan is for another mirror, or for other clusters than the mirror has now",
    not_approved=NotApproved,
    not_permitted=DecisionRefused,
)


def permitted(plan: str, view: StateView, clusters: ReturnedMirror, command: CommandContext) -> TailDecision:
    """The decision as it is on record, or as it is begun on a fresh approval.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, DecisionUnfinished. QuarantineChanged: rescued records
        are not in quarantine any more.
    """
    mirror = clusters.spec.mirror
    held = view.decision(mirror, plan)
    if held is not None and held.status is RunStatus.RUNNING:
        return _with_time(held, clusters, command)
    found = permit(DECISIONS, plan, view.decisions(mirror), clusters, command)
    approval, approved = found.approval, found.approved
    _must_be_alone(approved, view)
    ensure_present(clusters, _must_fit(approved, view), command.by)
    if TailAction.REPLAY in approved.actions.values():
        _must_be_writable(approved, clusters, command)
    started = command.clock.now()
    return TailDecision(
        mirror=mirror,
        mirror_id=clusters.spec.mirror_id,
        plan=plan,
        plan_json=approval.plan_json,
        approval=approval.id,
        approver=approval.approver,
        status=RunStatus.RUNNING,
        started_at=started,
        at=started,
        expired_at=approval.at if approved.expired_at is None else approved.expired_at,
    )


def _with_time(begun: TailDecision, clusters: ReturnedMirror, command: CommandContext) -> TailDecision:
    """The decision with the time by which records have expired. An earlier version stored none: that of the approval.

    It stands in for the time at which the decision was begun where the approval does not exist any more.
    """
    if begun.expired_at >= 0:
        return begun
    side = clusters.destination.approvals
    entries = side.all(command.by) if side.exists(command.by) else ()
    at = next((each.at for each in approvals(entries) if each.id == begun.approval), begun.started_at)
    return replace(begun, expired_at=at)


def _must_be_alone(plan: DecisionPlan, view: StateView) -> None:
    """Raises DecisionUnfinished: another decision about one of these topics is not replayed to its end."""
    for other in view.decisions(plan.mirror):
        if other.status is not RunStatus.RUNNING:
            continue
        if both := sorted(set(plan.topics) & set(DecisionPlan.read(other.plan_json).topics)):
            raise DecisionUnfinished(f"plan {other.plan} of mirror {plan.mirror!r} is not replayed yet: {named(both)}")


def _must_fit(plan: DecisionPlan, view: StateView) -> list[TopicTails]:
    """The rescued tails. Raises NotPermitted if they are not the approved ones."""
    tails = [each for each in rescued_tails(view, plan.mirror) if each.topic in plan.topics]
    if decided_tails(tails) != plan.tails:
        raise DecisionRefused(
            "the rescued tails are not those of the plan: `tanist failback decide` shows the current one"
        )
    return tails


def _must_be_writable(plan: DecisionPlan, clusters: ReturnedMirror, command: CommandContext) -> None:
    """Raises ReplayDenied if this login may not write to the topics."""
    answers = clusters.destination.replays.may_write(plan.topics, command.by)
    if denied := sorted(topic for topic, may in answers.items() if may is False):
        raise ReplayDenied(f"this login may not write to {named(denied, ', ')} at {clusters.spec.destination!r}")
