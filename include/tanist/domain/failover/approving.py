"""A person's permission for one plan, as it was shown to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from tanist.domain.errors import CouldNotTell, Misconfigured, Refused
from tanist.domain.failover.plan import Approved, hash_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import FailoverRun

APPROVALS_TOPIC: Final = "__mirror_approvals"
UNPROTECTED: Final = "UNPROTECTED"
LONGEST_MS: Final = 7 * 24 * 3_600_000
"""No approval holds longer; one that says so cannot be read."""


class NotApproved(Refused):
    name = "NOT_APPROVED"
    operator_action = "`tanist failover plan`, then `tanist failover approve`; nothing was changed"


class NotPermitted(Refused):
    """The approval exists, but the world is not what was approved."""

    name = "NOT_PERMITTED"
    operator_action = "plan again and have the new plan approved; nothing was changed"


class ApprovalUsed(Refused):
    name = "APPROVAL_USED"
    operator_action = "an approval is for one run: have the plan approved again; nothing was changed"


class NoApproverTopic(CouldNotTell):
    name, retriable = "NO_APPROVER_TOPIC", False
    operator_action = (
        f"kafka-topics.sh --create --topic {APPROVALS_TOPIC} --partitions 1 --config cleanup.policy=delete "
        "--config retention.ms=-1 --config message.timestamp.type=LogAppendTime, and give WRITE on it to approvers only"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an approver signs: `shown` is the plan, word for word."""

    mirror: MirrorName
    plan: str
    shown: str
    reason: str
    valid_for_ms: int
    on_behalf_of: str = ""
    """Whom our principal says it approves for, for instance "alice via Airflow"; empty: for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """As it stands in the approvers' topic. `id` is partition-offset; `at` is the brokers' time (LogAppendTime).

    `approver` is what its writer says: Kafka puts no principal into records. What an authorizer proves is that some
    login with WRITE on the topic has approved.
    """

    SKEW_MS: ClassVar[int] = 5_000
    """By so much our clock may be behind the brokers'."""

    id: str
    mirror: MirrorName
    plan: str
    shown: str
    approver: str
    reason: str
    valid_for_ms: int
    at: EpochMs

    @property
    def expires_at(self) -> int:
        return self.at + self.valid_for_ms

    @property
    def genuine(self) -> bool:
        """Whether the words are those that the hash names."""
        return hash_of(self.shown) == self.plan


def signature(principal: str, on_behalf_of: str = "") -> str:
    """The approver as others read it: who was logged in, and for whom where that is somebody else.

    The login comes last, and nobody else's name can look like one: `alice via Airflow (User:airflow)`.

    Raises:
        Misconfigured: a name with brackets, line breaks, or none of letters.
    """
    if not on_behalf_of:
        return principal
    if not on_behalf_of.strip() or not on_behalf_of.isprintable() or set("()") & set(on_behalf_of):
        raise Misconfigured(f"nobody can approve as {on_behalf_of!r}: a name on one line, without brackets")
    shown = principal if principal.startswith(UNPROTECTED) else f"User:{principal}"
    return f"{on_behalf_of.strip()} ({shown})"


def choose(approvals: Iterable[Approval], runs: Iterable[FailoverRun], mirror: MirrorName, plan: str) -> Approval:
    """The approval of `plan` that holds longest, of those that no run has used and that are newer than one that was.

    `approvals` in the order in which they were written. Only the latest run of a plan is on record: what was approved
    before its approval may have been used by an earlier one.

    Raises:
        NotApproved: there is none. ApprovalUsed: all were used.
    """
    ours = [each for each in approvals if each.mirror == mirror and each.plan == plan and each.genuine]
    if not ours:
        raise NotApproved(f"nobody has approved plan {plan} of mirror {mirror!r}")
    latest = next((run for run in runs if run.plan == plan), None)
    used = [n for n, each in enumerate(ours) if latest is not None and each.id == latest.approval]
    free = ours[used[-1] + 1 :] if used else ours
    if latest is not None and not free:
        why = f" ({latest.reason})" if latest.reason else ""
        raise ApprovalUsed(f"approval {latest.approval} of plan {plan} was used by a run that is {latest.status}{why}")
    return max(free, key=lambda each: each.expires_at)


def approved(approval: Approval) -> Approved:
    """The plan that was approved.

    Raises:
        NotApproved: its words cannot be read by this version.
    """
    try:
        return Approved.read(approval.shown)
    except (ValueError, KeyError, TypeError, RecursionError) as unreadable:
        raise NotApproved(f"approval {approval.id} cannot be read by this version: {unreadable}") from unreadable
