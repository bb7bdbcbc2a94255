"""The run stands in the state topic: whoever copies metadata of this mirror looks there first, and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.last_look import must_have_rights
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """Nothing copies metadata yet; the record is what will hold it.

    Raises:
        AuthorizationFailed: producers would be kept off the source for a run that must stop before its barrier.
    """
    must_have_rights(work)
    work.save()
    return Done({"run": work.record.key, "approval": work.record.approval, "approver": work.record.approver})
