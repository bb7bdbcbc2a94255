"""Puts our name under a plan of the way back, in the approvers' topic of the new primary."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Protocol

from tanist.domain.errors import Misconfigured
from tanist.domain.failover.approving import (
    LONGEST_MS,
    ApprovalRequest,
    NoApproverTopic,
    Withdrawal,
    command_request,
    time_objections,
)

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.plan import PlanHash
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.survey import ReturnContext


class SignedPlan(Protocol):
    """What an approver accepts. `canonical_plan`: JSON, word for word; `hash`: of it."""

    @property
    def canonical_plan(self) -> str: ...
    @property
    def hash(self) -> PlanHash: ...


def check_words(reason: str, valid_seconds: float) -> int:
    """For how long the approval is valid, in ms. Raises Misconfigured."""
    if not reason.strip():
        raise Misconfigured("an approval needs a --reason, which is stored with it")
    valid_for_ms = round(valid_seconds * 1000)
    if not 0 < valid_for_ms <= LONGEST_MS:
        raise Misconfigured(f"--valid must be up to {LONGEST_MS / 3_600_000:.0f} h")
    return valid_for_ms


def sign(  # noqa: PLR0913  # what an approver says, named
    plan: SignedPlan,
    clusters: ReturnContext,
    command: CommandContext,
    *,
    reason: str,
    valid_for_ms: int,
    answers: str | None = None,
    on_behalf_of: str = "",
) -> Approval:
    """Write the approval of `plan`. `answers`: the request of an orchestrator's run; None: a command asks.

    Raises:
        NoApproverTopic. AuthorizationFailed: we are no approver.
    """
    side = clusters.destination
    if not side.approvals.exists(command.by):
        if side.opening.has_authorizer(command.by):
            raise NoApproverTopic(f"destination {side.name!r} has none")
        side.approvals.create(command.by)
    request = ApprovalRequest(
        mirror=clusters.spec.mirror,
        plan=plan.hash,
        plan_json=plan.canonical_plan,
        request=answers or command_request(plan.hash, token_hex(8)),
        reason=reason,
        valid_for_ms=valid_for_ms,
        on_behalf_of=on_behalf_of,
    )
    return side.approvals.append(request, command.by)


def out_of_time(approval: Approval, clusters: ReturnContext, command: CommandContext) -> str:
    """Why the time does not permit what was approved, in words; empty: it does. See `time_objections`."""
    brokers_time = clusters.destination.approvals.brokers_time(command.by)
    found = time_objections(approval, command.clock.now(), brokers_time)
    reasons = "; ".join(f"{each.name}: {each.detail}" for each in found)
    return f"approval {approval.id} of plan {approval.plan} is not valid: {reasons}" if reasons else ""


def take_back(
    plan_hash: str, clusters: ReturnContext, command: CommandContext, *, request: str = "", reason: str
) -> None:
    """Withdraw what was approved of a plan; one that was begun continues. `request`: as in `Withdrawal`.

    Raises:
        NoApproverTopic. AuthorizationFailed: we are no approver, nothing was withdrawn.
    """
    no = Withdrawal(mirror=clusters.spec.mirror, plan=plan_hash, request=request, reason=reason)
    clusters.destination.approvals.withdraw(no, command.by)
