"""What the JSON of `tanist failover` and `tanist fence` says, item by item: the names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.failover.limitations import failed
from tanist.domain.fences import FenceKind
from tanist.usecases.failover.route import GROUPS, ROUTE
from tanist.usecases.items import limitation_item

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.approval.entries import Approval
    from tanist.domain.circle import PendingReversal
    from tanist.domain.records import FailoverRun
    from tanist.usecases.failover.fences import FenceRow
    from tanist.usecases.failover.planning import Planned
    from tanist.usecases.failover.run import RunOutcome
    from tanist.usecases.failover.status import RunSeen

STEP_COLUMNS = ("step", "title", "done")
FENCE_COLUMNS = ("mirror", "topic", "kind", "status", "stands", "before", "reason")


def plan_item(planned: Planned) -> dict[str, Any]:
    """A plan as an approver sees it."""
    plan, cost = planned.plan, planned.forecast
    return {
        "mirror": plan.intent.mirror,
        "plan_hash": plan.hash,
        "kept": planned.kept,
        "approve": planned.approve_command,
        "mode": plan.intent.mode,
        "topics": list(plan.intent.names),
        "partitions": len(plan.intent.partitions),
        "groups": list(plan.intent.groups),
        "failed": {str(each.partition): each.error for each in failed(plan.intent, planned.facts)},
        "steps": [*step_items(planned.left), *([REVERSE_ITEM] if plan.intent.reverse else ())],
        "verdict": planned.word,
        "limitations": [limitation_item(each) for each in plan.limitations],
        "reserve": {
            "budget": plan.intent.reserve,
            "source_dead_since_ms": plan.intent.dead_since,
            "offsets": planned.reserve.offsets,
            "seconds": round(planned.reserve.seconds, 3),
            "lasts_ms": planned.reserve.lasts_ms,
            "by_partition": {str(e.partition): e.granted for e in planned.reserve.partitions if e.granted},
            "may_be_reused": [str(each.partition) for each in planned.reserve.partitions if not each.fits],
            "complete": [str(each.partition) for each in planned.reserve.partitions if each.complete],
            "covers_ms": {str(e.partition): e.covers_ms for e in planned.reserve.partitions if e.covers_ms >= 0},
        },
        "forecast": {
            "offsets_at_risk": cost.offsets_at_risk,
            "estimate": cost.estimate,
            "estimate_at_end": cost.estimate_at_end,
            "rate": cost.rate,
            "seen_at_ms": cost.seen_at,
            "last_answer_ms": cost.last_answer,
            "final": cost.final,
            "loss_tolerance": plan.intent.loss_tolerance,
            "age_ms": cost.age_ms,
            "by_partition": {str(at): offsets for at, offsets in cost.by_partition},
            "unknown": [str(at) for at in cost.unknown],
            "open_transactions": [
                {"partition": str(each.partition), "producer_id": each.producer_id, "since_ms": each.since}
                for each in cost.transactions
            ],
        },
    }


REVERSE_ITEM: Final = {
    "id": "reverse",
    "step": "reverse",
    "title": "the mirror copies to its old source, as by `tanist mirrors reverse`",
    "done": False,
}
"""The optional last step, which is not part of the route: the mirror has another destination then."""


def step_items(left: Collection[str]) -> list[dict[str, Any]]:
    """The route. `left`: ids of the steps that are not done."""
    return [{"id": step.id, "step": step.id, "title": step.title, "done": step.id not in left} for step in ROUTE]


def approval_item(approval: Approval) -> dict[str, Any]:
    """An approval that was written. `state`: `unread` if it could not be read back, with the reason in `unread`."""
    return {
        "mirror": approval.mirror,
        "plan_hash": approval.plan,
        "approval": approval.id,
        "request": approval.request,
        "approver": approval.approver,
        "reason": approval.reason,
        "approved_at_ms": approval.at,
        "expires_at_ms": approval.expires_at,
        "state": "unread" if approval.unread else "read",
        "unread": approval.unread or None,
    }


def run_item(record: FailoverRun, took: tuple[float, float] | None = None, folder: str | None = None) -> dict[str, Any]:
    """A run. `seconds` until all could be written to, without `proof_seconds` of waiting for proofs of a fence."""
    work, waited = took or (None, None)
    return {
        "mirror": record.mirror,
        "plan_hash": record.plan,
        "status": record.status,
        "approval": record.approval,
        "approver": record.approver,
        "runner": record.runner or None,
        "past_no_return": record.no_return,
        "started_at_ms": record.started_at,
        "heartbeat_ms": record.at,
        "reason": record.reason,
        "seconds": None if work is None else round(work, 3),
        "proof_seconds": None if waited is None else round(waited, 3),
        "evidence": folder,
    }


def seen_item(seen: RunSeen) -> dict[str, Any]:
    pending = {"pending_reversal": pending_reversal_item(seen.reversal)}
    return run_item(seen.record) | {"age_ms": seen.age_ms, "steps": step_items(seen.left)} | pending


def pending_reversal_item(found: PendingReversal | None) -> dict[str, Any] | None:
    """A reversal that is left to be completed, with the command that does so; None: there is none."""
    if found is None:
        return None
    return {
        "status": found.status,
        "plan_hash": found.plan,
        "approver": found.approver,
        "next": found.next_command,
    }


def outcome_item(outcome: RunOutcome, folder: str) -> dict[str, Any]:
    """A run as this call leaves it."""
    item = run_item(outcome.record, (outcome.seconds, outcome.waited), folder)
    groups, sealed, ended = (outcome.evidence.found(step) for step in (GROUPS.id, ROUTE.no_return, "end"))
    return item | {
        "steps": step_items(outcome.left),
        "group_problems": groups.get("problems", []),
        "group_mismatches": groups.get("mismatches", []),
        **{name: ended.get(name) or sealed.get(name, {}) for name in ("may_be_reused", "reserve_estimated")},
    }


def fence_item(mirror: str, row: FenceRow) -> dict[str, Any]:
    before = row.source_fence.before
    return {
        "mirror": mirror,
        "topic": row.source_fence.topic,
        "status": row.source_fence.status,
        "kind": before.kind if before else None,
        "cluster": row.group.spec.source if row.group else None,
        "stands": row.stands,
        "before": _before(row) if before else None,
        "plan_hash": row.source_fence.wanted_by,
        "reason": row.reason or row.source_fence.reason,
    }


def _before(row: FenceRow) -> str:
    before = row.source_fence.before
    if before is None:
        return "unknown"
    if before.kind is FenceKind.DENY_WRITE:
        return "denied already" if before.had_deny else "not denied"
    return f"max.message.bytes {before.max_message_bytes or 'not set'}"
