"""What the evidence of a run begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.failover.forecast import forecast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.usecases.failover.clusters import FailoverContext


def evidence_header(
    approval: Approval, plan: ApprovedPlan, facts: Facts, clusters: FailoverContext
) -> Mapping[str, Any]:
    """Approval, forecast and facts as they are when the run begins."""
    cost = forecast(plan.intent, facts)
    return {
        "mode": plan.intent.mode,
        "source": [clusters.spec.source, plan.intent.source_cluster_id],
        "destination": [clusters.spec.destination, plan.intent.destination_cluster_id],
        "topics": list(plan.intent.names),
        "groups": list(plan.intent.groups),
        "limitations_accepted": sorted(plan.limitations),
        "approval": {"id": approval.id, "by": approval.approver, "reason": approval.reason, "at": approval.at},
        "forecast": {"offsets_at_risk": cost.offsets_at_risk, "estimate": cost.estimate, "age_ms": cost.age_ms},
        "partitions": {
            str(each.partition): {
                "state": each.state,
                "error": each.error,
                "destination_end": each.end,
                "source_end": each.live.high_watermark if each.live else None,
                "source_last_known": each.known.high_watermark if each.known else None,
                "last_mirrored_epoch": each.last_mirrored_epoch,
            }
            for each in facts.partitions
        },
    }
