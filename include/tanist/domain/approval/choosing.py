"""Which approval permits a run now: it answers the request, and is neither used, withdrawn nor out of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.approval.entries import (
    OF_A_RUN,
    Approval,
    ApprovalUsed,
    ApprovedRun,
    Entry,
    NotApproved,
    Withdrawal,
    approvals,
)
from tanist.domain.limitation import Limitation
from tanist.domain.names import iso_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import FailoverRun

EXPIRED: Final = "APPROVAL_EXPIRED"


def choose(
    entries: Sequence[Entry], runs: Iterable[ApprovedRun], mirror: MirrorName, plan: str, request: str | None = None
) -> Approval:
    """The approval of `plan` that holds longest, of those that answer the request and are neither withdrawn nor used.

    `entries` in the order in which they were written. `request`: of the run of an orchestrator that asks; None: a
    command asks, which may use what answers no such run. Only the latest run of a plan is on record: what was approved
    before its approval may have been used by an earlier one.

    Raises:
        NotApproved: there is none. ApprovalUsed: all were used.
    """
    ours = [each for each in approvals(entries) if each.mirror == mirror and each.plan == plan and each.genuine]
    if not ours:
        raise NotApproved(f"plan {plan} of mirror {mirror!r} is not approved")
    latest = next((run for run in runs if run.plan == plan), None)
    used = [n for n, each in enumerate(ours) if latest is not None and each.id == latest.approval]
    unused = ours[used[-1] + 1 :] if used else ours
    free = [each for each in unused if _answers(each, request)]
    if not free and latest is not None and (not unused or any(_answers(each, request) for each in ours)):
        why = f" ({latest.reason})" if latest.reason else ""
        raise ApprovalUsed(f"approval {latest.approval} of plan {plan} was used by a run that is {latest.status}{why}")
    if not free:
        raise NotApproved(
            f"approval {unused[-1].id} of plan {plan} cannot be used here: it answers the request {unused[-1].request}"
        )
    standing = [each for each in free if withdrawn(entries, each) is None]
    if not standing:
        must_stand(entries, free[-1])
    return max(standing, key=lambda each: each.expires_at)


def _answers(approval: Approval, request: str | None) -> bool:
    return not approval.request.startswith(OF_A_RUN) if request is None else approval.request == request


def without(entries: Iterable[Entry], used: Collection[str]) -> tuple[Entry, ...]:
    """`entries` without the approvals that have these ids: runs that are not on record any more have used them."""
    return tuple(each for each in entries if not isinstance(each, Approval) or each.id not in used)


def recorded(run: FailoverRun) -> Approval:
    """The approval of a run past its point of no return, from the run's own record.

    That record was made from the approval, and forward is the only safe way: what becomes of the approvers' topic
    (retention, deletion) must not stop the run there.

    Raises:
        NotApproved: the record's words are not those that its hash names.
    """
    approval = Approval(
        id=run.approval,
        mirror=run.mirror,
        plan=run.plan,
        plan_json=run.plan_json,
        approver=run.approver,
        reason="",
        valid_for_ms=0,
        at=run.started_at,
    )
    if not approval.genuine:
        raise NotApproved(f"the plan on record is not the one with hash {run.plan}")
    return approval


def must_stand(entries: Sequence[Entry], approval: Approval) -> None:
    """Raises NotApproved where `approval`, on which no failover has begun, was withdrawn."""
    if (no := withdrawn(entries, approval)) is not None:
        raise NotApproved(f"approval {approval.id} of plan {approval.plan} was withdrawn: {no.reason}")


def withdrawn(entries: Sequence[Entry], approval: Approval) -> Withdrawal | None:
    """What has voided `approval`; None: nothing. Where a failover has begun on it nobody asks any more."""
    where = entries.index(approval)
    of_a_run = approval.request.startswith(OF_A_RUN)
    voiding = (
        no
        for n, no in enumerate(entries)
        if isinstance(no, Withdrawal)
        and no.mirror == approval.mirror
        and (no.request == approval.request if no.request else no.plan == approval.plan and n > where and not of_a_run)
    )
    return next(voiding, None)


def time_objections(approval: Approval, now: EpochMs, brokers_time: EpochMs | None) -> tuple[Limitation, ...]:
    """Why the time does not permit what was approved; empty: it does. The rule of every gate.

    `now`: our clock, `brokers_time`: the latest append time of the brokers, None: not known, both ms since 1970. An
    approval expires by the later of the two, so our clock must not be behind the brokers'.
    """
    theirs = max(approval.at, brokers_time or approval.at)
    found = []
    if (latest := max(now, theirs)) >= approval.expires_at:
        why = f"valid until {iso_time(approval.expires_at)}, now is {iso_time(latest)}: approve it again"
        found.append(Limitation(EXPIRED, why))
    if now < theirs - approval.SKEW_MS:
        why = f"correct this host's clock: it shows {iso_time(now)}, the brokers' showed {iso_time(theirs)}"
        found.append(Limitation("CLOCK_BEHIND", why))
    return tuple(found)


def unexpired(entries: Iterable[Entry], now: EpochMs) -> tuple[Approval, ...]:
    """The approvals that have not expired by our clock alone: whether one may be used, `time_objections` says."""
    return tuple(each for each in approvals(entries) if each.expires_at > now)


def answer_to(entries: Sequence[Entry], mirror: MirrorName, request: str) -> Entry | None:
    """What approvers have answered to `request`, of one run of an orchestrator; None: nothing that stands.

    A No stands for good; else it is the latest approval.
    """
    ours = [each for each in entries if (each.mirror, each.request) == (mirror, request)]
    no = [each for each in ours if isinstance(each, Withdrawal)]
    return next(iter(no), None) or next((each for each in reversed(approvals(ours)) if each.genuine), None)
