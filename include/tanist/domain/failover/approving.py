"""A person's permission for one plan, as it was shown to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias

from tanist.domain.errors import CouldNotTell, Misconfigured, Refused
from tanist.domain.failover.plan import Limitation, hash_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import FailoverRun

APPROVALS_TOPIC: Final = "__mirror_approvals"
UNPROTECTED: Final = "UNPROTECTED"
EXPIRED: Final = "APPROVAL_EXPIRED"
ReserveEnds: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""By topic: the destination offset where the reserve of each partition ends; 0: it has none."""
LONGEST_MS: Final = 7 * 24 * 3_600_000
"""No approval holds longer; one that says so cannot be read."""


class NotApproved(Refused):
    name = "NOT_APPROVED"
    operator_action = (
        "approve the plan: `tanist failover plan`, and `tanist mirrors remove --dry-run`, print the command; "
        "nothing was changed"
    )


class NotPermitted(Refused):
    """The approval exists, but the world is not what was approved."""

    name = "NOT_PERMITTED"
    operator_action = "run `tanist failover plan` again and have the new plan approved; nothing was changed"


class ApprovalUsed(Refused):
    name = "APPROVAL_USED"
    operator_action = "an approval permits one run only: have the plan approved again; nothing was changed"


class NoApproverTopic(CouldNotTell):
    name, retriable = "NO_APPROVER_TOPIC", False
    operator_action = (
        f"kafka-topics.sh --create --topic {APPROVALS_TOPIC} --partitions 1 --config cleanup.policy=delete "
        "--config retention.ms=-1 --config message.timestamp.type=LogAppendTime, and give WRITE on it to approvers only"
    )


_OF_A_RUN: Final = "run/"


def run_request(orchestrator: str, run: str) -> str:
    """The request of one run of an orchestrator: an approval that answers it permits that run alone."""
    return f"{_OF_A_RUN}{orchestrator}/{run}"


def command_request(plan: str, nonce: str) -> str:
    """The request that `tanist failover approve` makes and answers: it permits any command that runs the plan."""
    return f"command/{plan}/{nonce}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What an approver signs: `plan_json` is the plan, word for word; `request` is what they were asked."""

    mirror: MirrorName
    plan: str
    plan_json: str
    request: str
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
    plan_json: str
    request: str = ""
    """What it answers; empty: it was written before approvals named that, by a command."""
    approver: str
    reason: str
    valid_for_ms: int
    at: EpochMs
    unread: str = ""
    """Why whoever wrote it could not read it back: it is in the topic, as its acknowledgement says. Never stored."""
    reserve_to: ReserveEnds = ()
    """Only what earlier versions wrote. It binds nothing: a reserve is decided at the point of no return."""

    @property
    def expires_at(self) -> int:
        return self.at + self.valid_for_ms

    @property
    def genuine(self) -> bool:
        """Whether the words are those that the hash names."""
        return hash_of(self.plan_json) == self.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """A no, as it stands in the approvers' topic.

    With a `request` it voids every approval that answers it, also one that is written later: whoever was about to write
    it was late. Without one it voids every approval of the plan that a command has written before; what answers a run
    of an orchestrator is voided by a withdrawal of that request alone, because the same plan may be asked for again.
    """

    mirror: MirrorName
    plan: str
    request: str = ""
    reason: str


Entry: TypeAlias = Approval | Withdrawal
"""Whatever stands in the approvers' topic and can be read."""


class ApprovedRun(Protocol):
    """A run on record: of a failover, a reversal, or a decision about tails. `approval`: the id of the one it is on."""

    @property
    def plan(self) -> str: ...
    @property
    def approval(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...


def signature(principal: str, on_behalf_of: str = "") -> str:
    """The approver as others read it: who was logged in, and for whom where that is somebody else.

    The login comes last, and nobody else's name can look like one: `alice via Airflow (User:airflow)`.

    Raises:
        Misconfigured: a name with brackets, line breaks, or none of letters.
    """
    if not on_behalf_of:
        return principal
    if not on_behalf_of.strip() or not on_behalf_of.isprintable() or set("()") & set(on_behalf_of):
        raise Misconfigured(
            f"{on_behalf_of!r} cannot be recorded as an approver: use a name on one line, without brackets"
        )
    shown = principal if principal.startswith(UNPROTECTED) else f"User:{principal}"
    return f"{on_behalf_of.strip()} ({shown})"


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
    return not approval.request.startswith(_OF_A_RUN) if request is None else approval.request == request


def approvals(entries: Iterable[Entry]) -> tuple[Approval, ...]:
    """Without what withdraws them."""
    return tuple(each for each in entries if isinstance(each, Approval))


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
    of_a_run = approval.request.startswith(_OF_A_RUN)
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
        why = f"valid until {approval.expires_at} ms, now is {latest} ms: approve it again"
        found.append(Limitation(EXPIRED, why))
    if now < theirs - approval.SKEW_MS:
        why = f"correct this host's clock: it shows {now} ms, the brokers' showed {theirs} ms"
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
