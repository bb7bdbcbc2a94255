"""`tanist metadata sync --delete-acls`: what the mirror has created, and does not follow any more, by an approved plan.

Before each deletion the source is asked again: an ACL that follows again stays.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_deletion import AclDeletion, AclsDeleted
from tanist.domain.acls import AclPermission
from tanist.domain.approval.entries import NotApproved, NotPermitted
from tanist.domain.errors import Refused
from tanist.domain.given_acls import bindings_of, changed_records
from tanist.domain.metadata import MIRROR_WIDE, Kind, Outcome
from tanist.domain.records import STATE_TOPIC
from tanist.domain.synced.acls import AclChange, deletion_row
from tanist.usecases import approvals, rights
from tanist.usecases.approvals import PlanKind, approve_at_once, permit
from tanist.usecases.failover.planning import AnotherPlan
from tanist.usecases.lock import LockedMirror, changing
from tanist.usecases.metadata.compare import MetadataRequest, comparing
from tanist.usecases.metadata.synced import never_wider
from tanist.usecases.runs.runner import UNREPORTED, RowRunner, RunRow, RunTable, Unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tanist.domain.acls import AclBinding
    from tanist.domain.approval.entries import Approval
    from tanist.domain.metadata import Decision, MetadataRow
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.approvals import ApprovalTerms, Permit
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import Rehearsal

_DIFF: Final = "`tanist metadata diff NAME` shows the current plan; nothing was {done}"


class DeletionNotApproved(NotApproved):
    operator_action = "nothing was deleted"


class AnotherDeletion(AnotherPlan):
    operator_action = _DIFF.format(done="approved")


class DeletionRefused(NotPermitted):
    name = "DELETION_NOT_PERMITTED"
    operator_action = _DIFF.format(done="deleted")


class NoAclsToDelete(Refused):
    name = "NO_ACLS_TO_DELETE"
    operator_action = "nothing was changed"


DELETIONS: Final = PlanKind(
    read=AclDeletion.read,
    unreadable="does not delete ACLs",
    fits=AclDeletion.fits,
    unfit="the plan is for another mirror, or for another destination than the mirror has now",
    not_approved=DeletionNotApproved,
    not_permitted=DeletionRefused,
    another=AnotherDeletion,
    command="tanist metadata sync {mirror} --destination {destination} --approve {plan} --reason 'as shown'",
    without_topic=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsAt:
    """Where ACLs are deleted, and the plan to delete what is gone now."""

    spec: MirrorSpec
    destination: Cluster
    plan: AclDeletion


def gone(decisions: Iterable[Decision]) -> tuple[AclBinding, ...]:
    """The ACLs that the mirror has created and that do not follow any more, by a look at the whole mirror."""
    changes = (each.changes.get(Kind.ACCESS) for each in decisions if each.topic == MIRROR_WIDE)
    return next((change.gone for change in changes if isinstance(change, AclChange)), ())


def plan_deletion(
    mirror: str, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> AclsAt:
    """The plan for what does not follow the source now, if there is any; changes nothing. Raises as `compare.diff`."""
    compared = comparing(MetadataRequest(mirror=mirror), destination, connect, context)(None)
    plan = AclDeletion.of(compared.spec, gone(compared.decisions))
    return AclsAt(spec=compared.spec, destination=destination, plan=plan)


def approve_deletion(plan: str, at: AclsAt, context: CommandContext, *, terms: ApprovalTerms) -> Approval:
    """Put our name under the plan, if these are still the ACLs that do not follow.

    Raises:
        NoAclsToDelete: there is none. AnotherDeletion. NoApproverTopic. AuthorizationFailed: we are no approver.
    """
    if not at.plan.acls:
        raise NoAclsToDelete(f"all ACLs that mirror {at.spec.mirror!r} has created still follow the source")
    return approvals.approve(DELETIONS, plan, at.plan, terms, at, context)


def delete_at_once(plan: str, at: AclsAt, context: CommandContext, *, terms: ApprovalTerms) -> None:
    """Approve the plan that this command runs next, unless it is approved. Raises as `approve_at_once`."""
    where = ("tanist", "metadata", "sync", at.spec.mirror, "--destination", at.destination.name)
    approve_at_once(
        lambda: _permit(plan, at, at.destination.state(STATE_TOPIC, context.by), context),
        lambda: approve_deletion(plan, at, context, terms=terms),
        (
            shlex.join((*where, "--approve", plan, "--reason", terms.reason)),
            shlex.join((*where, "--delete-acls", plan)),
        ),
        context,
    )


def _permit(plan: str, at: AclsAt, view: StateView, context: CommandContext) -> Permit[AclDeletion]:
    return permit(DELETIONS, plan, view.acls_deleted(at.spec.mirror), at, context)


def delete(
    plan: str, at: AclsAt, connect: Callable[[str], Cluster], context: CommandContext
) -> tuple[MetadataRow, ...]:
    """Delete the approved ACLs that still do not follow; one row for each. The approval is asked again under the lock.

    Raises:
        DeletionNotApproved, DeletionRefused, ApprovalUsed. MirrorLocked. What `compare.diff` raises.
    """

    def check(view: StateView) -> object:
        return _permit(plan, at, view, context)

    with changing(at.destination, at.spec.mirror, "metadata sync", context, check) as locked:
        given = _permit(plan, at, locked.view(), context)
        run = _Deleting(given.approved, given.approval, at, connect, locked)
        RowRunner.of(Unrecorded.of(given.approval), UNREPORTED, context.clock).do(DELETION, run)
        return run.rows


@dataclass(slots=True)
class _Deleting:
    """What each row is given."""

    plan: AclDeletion
    approval: Approval
    at: AclsAt
    connect: Callable[[str], Cluster]
    locked: LockedMirror | Rehearsal
    due: tuple[AclBinding, ...] = ()
    rows: tuple[MetadataRow, ...] = ()

    def find(self) -> None:
        command = self.locked.command
        look = comparing(MetadataRequest(mirror=self.plan.mirror), self.at.destination, self.connect, command)
        now = frozenset(gone(look(None).decisions))
        self.due = tuple(each for each in self.plan.acls if each in now)
        self.rows = tuple(deletion_row(each) for each in self.due)

    def delete(self) -> None:
        locked = self.locked
        if not isinstance(locked, LockedMirror):
            return
        store = self.at.destination.acls
        answers = never_wider(self.due, AclPermission.ALLOW, lambda due: store.delete(due, locked.confirm_action()))
        failed = {
            each: rights.named(error, self.at.destination, "ALTER on Cluster kafka-cluster")
            for each, error in answers.items()
            if error is not None
        }
        self.rows = tuple(
            replace(deletion_row(each), verdict=Outcome.FAILED, reason=str(failed[each]))
            if each in failed
            else replace(deletion_row(each), verdict=Outcome.CHANGED)
            for each in self.due
        )
        before = locked.view().acls_given(locked.spec.mirror)
        left = bindings_of(before) - ({*self.due} - {*failed})
        locked.append([*changed_records(locked.spec, before, left), *(() if failed else (self._used(locked),))])

    def _used(self, locked: LockedMirror) -> AclsDeleted:
        return AclsDeleted(
            mirror=locked.spec.mirror,
            mirror_id=locked.spec.mirror_id,
            plan=self.approval.plan,
            approval=self.approval.id,
            approver=self.approval.approver,
            at=locked.command.clock.now(),
        )


DELETION: Final[RunTable[_Deleting, _Deleting, None]] = RunTable(
    "a deletion of ACLs",
    (
        RunRow("find", "the approved ACLs that still do not follow the source are known", _Deleting.find),
        RunRow("delete", "they are deleted at the destination (the point of no return)", _Deleting.delete),
    ),
    no_return="delete",
)
"""Nothing of it has to be put back: the next sync creates what the source has again."""
