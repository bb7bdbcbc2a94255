"""The run stands in the state topic: whoever copies metadata of this mirror looks there first, and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.permissions import ensure_permissions
from tanist.usecases.failover.step import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.step import StepContext


def do(context: StepContext) -> Done:
    """Nothing copies metadata yet; the record is what will hold it.

    Raises:
        AuthorizationFailed: producers would be kept off the source for a run that must stop before its barrier.
    """
    ensure_permissions(context.intent, context.clusters, context.command)
    context.session.save()
    record = context.session.record
    return Done({"run": record.key, "approval": record.approval, "approver": record.approver})
