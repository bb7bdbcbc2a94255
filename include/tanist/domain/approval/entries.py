"""A person's permission for one plan, as it was shown to them, and as it stands in the approvers' topic."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias

from tanist.domain.approval.words import hash_of
from tanist.domain.errors import CouldNotTell, Misconfigured, Refused, UnsafeStateTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import EpochMs, MirrorName

APPROVALS_TOPIC: Final = "__mirror_approvals"
UNPROTECTED: Final = "UNPROTECTED"
_ADDRESS: Final = "HOST:PORT"
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
        f"`kafka-topics.sh --bootstrap-server {_ADDRESS} --create --topic {APPROVALS_TOPIC} --partitions 1 --config "
        "cleanup.policy=delete --config retention.ms=-1 --config message.timestamp.type=LogAppendTime` creates it; "
        "give WRITE on it to approvers only"
    )

    def __init__(self, cluster: str, bootstrap: str) -> None:
        """`cluster`: its name. `bootstrap`: where it is, `host:port,...`."""
        super().__init__(f"{cluster!r} has no topic {APPROVALS_TOPIC}")
        self.bootstrap = bootstrap

    def action_for(self, *topics: str) -> str:
        """As that of any error, with the address of the cluster."""
        return super().action_for(*topics).replace(_ADDRESS, shlex.quote(self.bootstrap))


class UnsafeApproverTopic(UnsafeStateTopic):
    operator_action = (
        f"`kafka-configs.sh --alter --entity-type topics --entity-name {APPROVALS_TOPIC} --add-config "
        "cleanup.policy=delete,retention.ms=-1,retention.bytes=-1,message.timestamp.type=LogAppendTime` mends its "
        "configuration; one of several partitions is deleted and made again"
    )


class FourEyes(Refused):
    name = "FOUR_EYES"
    operator_action = "type both commands, each with its own login; nothing was changed"


OF_A_RUN: Final = "run/"


def run_request(orchestrator: str, run: str) -> str:
    """The request of one run of an orchestrator: an approval that answers it permits that run alone."""
    return f"{OF_A_RUN}{orchestrator}/{run}"


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


def approvals(entries: Iterable[Entry]) -> tuple[Approval, ...]:
    """Without what withdraws them."""
    return tuple(each for each in entries if isinstance(each, Approval))
