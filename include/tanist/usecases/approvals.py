"""Approvals in the approvers' topic of a destination: whatever they approve is written, found and judged here."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from tanist.domain.answers import attempt
from tanist.domain.approval.choosing import answer_to, choose, time_objections, without
from tanist.domain.approval.entries import (
    LONGEST_MS,
    ApprovalRequest,
    ApprovalUsed,
    FourEyes,
    NoApproverTopic,
    NotApproved,
    NotPermitted,
    Withdrawal,
    command_request,
    signature,
)
from tanist.domain.approval.words import hash_of
from tanist.domain.errors import AuthorizationFailed, Misconfigured, TanistError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tanist.domain.approval.entries import Approval, ApprovedRun, Entry
    from tanist.domain.errors import Refused
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

_LOOK_SECONDS: Final = 2.0
P = TypeVar("P")


class ApprovedAt(Protocol):
    """The mirror that a plan is about, and its destination, which has the approvers' topic."""

    @property
    def spec(self) -> MirrorSpec: ...
    @property
    def destination(self) -> Cluster: ...


class MadePlan(Protocol):
    """A plan of any kind."""

    @property
    def hash(self) -> str: ...
    @property
    def canonical_plan(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """What an approver says beside the plan.

    `on_behalf_of`: who decided, where that is not whom our connection logs in as; both names are on record.
    """

    reason: str
    valid_for_ms: int
    on_behalf_of: str = ""

    @classmethod
    def of(cls, reason: str, valid_seconds: float, on_behalf_of: str = "") -> Self:
        """Raises Misconfigured; no cluster is asked."""
        must_give_a_reason(reason)
        valid_for_ms = round(valid_seconds * 1000)
        if not 0 < valid_for_ms <= LONGEST_MS:
            raise Misconfigured(f"--valid must be up to {LONGEST_MS / 3_600_000:.0f} h")
        signature("", on_behalf_of)
        return cls(reason=reason, valid_for_ms=valid_for_ms, on_behalf_of=on_behalf_of)


def must_give_a_reason(reason: str) -> None:
    """Raises Misconfigured where there is none."""
    if not reason.strip():
        raise Misconfigured("an approval needs a --reason, which is stored with it")


def _must_have_a_topic(at: ApprovedAt, command: CommandContext) -> None:
    """The approvers' topic is made here only where the cluster has no authorizer.

    With one, whoever makes it must also say who may write to it.

    Raises:
        NoApproverTopic.
    """
    side = at.destination
    if side.approvals.exists(command.by):
        return
    if side.opening.has_authorizer(command.by):
        raise NoApproverTopic(side.name, side.bootstrap)
    side.approvals.create(command.by)


def stored_entries(at: ApprovedAt, command: CommandContext) -> tuple[Entry, ...]:
    """What approvers have written, in order; nothing where this login is not told."""
    found = attempt(lambda: at.destination.approvals.all(command.by))
    return () if isinstance(found, TanistError) else found


def keeps_none(cluster: Cluster, by: Deadline) -> TanistError | None:
    """Why approvals are not kept at a cluster, or this login cannot tell; None: they are."""
    found = attempt(lambda: cluster.approvals.all(by))
    return found if isinstance(found, TanistError) else None


def sign(  # what is signed, for what, and how
    words: str,
    terms: ApprovalTerms,
    at: ApprovedAt,
    command: CommandContext,
    *,
    request: str = "",
    show: Callable[[], object] | None = None,
) -> Approval:
    """Put our name under the plan with these words, its canonical JSON.

    `request`: of the orchestrator's run that asked, which alone it permits; empty: a command's own. `show`: is called
    before it is signed, where it can be.

    Raises:
        NoApproverTopic. AuthorizationFailed: we are no approver.
    """
    _must_have_a_topic(at, command)
    if show is not None:
        show()
    plan = hash_of(words)
    signed = ApprovalRequest(
        mirror=at.spec.mirror,
        plan=plan,
        plan_json=words,
        request=request or command_request(plan, token_hex(8)),
        reason=terms.reason,
        valid_for_ms=terms.valid_for_ms,
        on_behalf_of=terms.on_behalf_of,
    )
    return at.destination.approvals.append(signed, command.by)


def approve(  # noqa: PLR0913  # what is approved, what is made now, and how
    kind: PlanKind[P],
    plan: str,
    made: MadePlan,
    terms: ApprovalTerms,
    at: ApprovedAt,
    command: CommandContext,
    *,
    request: str = "",
    says: str = "",
) -> Approval:
    """Put our name under the plan with the hash `plan`, if it is the one that is `made` now; `says`: what that says.

    Raises:
        What `kind.another` is. Otherwise as `sign`.
    """
    if made.hash != plan:
        raise kind.another(f"{plan} was requested, but the plan is now {made.hash}{says}")
    return sign(made.canonical_plan, terms, at, command, request=request)


def approve_at_once(
    permitted: Callable[[], object], signs: Callable[[], Approval], apart: tuple[str, str], command: CommandContext
) -> Approval | None:
    """Approve a plan that the same command runs next; None: it is approved, and what `permitted` raises says so.

    `signs`: approves it. `apart`: the commands that approve it and run it, for two logins.

    Raises:
        FourEyes: one command must not do both. AuthorizationFailed: we are no approver. What `signs` raises. Nothing
        was changed.
    """
    try:
        permitted()
    except (NotApproved, NotPermitted, ApprovalUsed, NoApproverTopic):
        pass
    else:
        return None
    approves, runs = apart
    how = f"as an approver `{approves}`, then `{runs}`"
    if command.four_eyes:
        raise FourEyes(f"one command must not approve a plan and run it, because TANIST_FOUR_EYES is on: {how}")
    try:
        return signs()
    except AuthorizationFailed as denied:
        raise AuthorizationFailed(f"{denied.reason}; or another login approves the plan: {how}") from denied


def withdraw(plan: str, at: ApprovedAt, command: CommandContext, *, request: str = "", reason: str) -> None:
    """Take back what was approved of a plan, as far as nothing has begun on it: what has continues.

    `request`: only what answers it, also if that is written later; empty: what commands have approved before.

    Raises:
        NoApproverTopic. AuthorizationFailed: we are no approver, nothing was withdrawn.
    """
    no = Withdrawal(mirror=at.spec.mirror, plan=plan, request=request, reason=reason)
    at.destination.approvals.withdraw(no, command.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKind(Generic[P]):
    """A kind of plans that are approved: failovers, reversals, decisions about tails, aborts of transactions.

    `read`: of canonical JSON; raises ValueError, KeyError, TypeError or RecursionError for a plan of another kind, and
    `unreadable` says that of an approval. `fits`: whether a plan is of the mirror as it is now, `unfit` says that it is
    not. `another`: the plan that is to be approved is not made any more. `command`: approves a plan, with `{mirror}`,
    `{destination}` and `{plan}`; empty: errors do not name it. `without_topic`: where there is no topic of approvals
    either, a plan is just not approved; False: NoApproverTopic.
    """

    read: Callable[[str], P]
    unreadable: str
    fits: Callable[[P, MirrorSpec], bool]
    unfit: str
    not_approved: type[NotApproved]
    not_permitted: type[Refused]
    another: type[Refused]
    command: str = ""
    without_topic: bool = False

    def with_options(self, words: Iterable[str]) -> Self:
        """The same, of a plan that is made with these options of the command."""
        options = shlex.join(words).replace("{", "{{").replace("}", "}}")
        return replace(self, command=self.command.replace(" --approve", f" {options} --approve")) if options else self

    def approved_by(self, plan: str, at: ApprovedAt) -> str:
        """The command that approves the plan with the hash `plan`, after a colon; empty: errors do not name it."""
        named = self.command.format(mirror=at.spec.mirror, destination=at.destination.name, plan=plan)
        return f": {named}" if named else ""


@dataclass(frozen=True, slots=True)
class Permit(Generic[P]):
    """An approval, and the plan that it permits to run."""

    approval: Approval
    approved: P


def permit(  # noqa: PLR0913  # what is approved, where, and what has used it
    kind: PlanKind[P],
    plan: str,
    runs: Iterable[ApprovedRun],
    at: ApprovedAt,
    command: CommandContext,
    *,
    request: str | None = None,
    used: Collection[str] = (),
) -> Permit[P]:
    """The approval of the plan with the hash `plan`, if it is valid now and of the mirror as it is now.

    `runs`, `request`: as in `choose`. `used`: ids of approvals of runs that are not on record any more.

    Raises:
        NotApproved, as the kind has it: there is none, or it is one of another kind. NoApproverTopic, see
        `without_topic`. ApprovalUsed. The kind's `not_permitted`: it
        has expired, or our clock is behind; the plan is not of the mirror as it is now.
    """
    approval = find_approval(kind, plan, runs, at, command, request=request, used=used)
    if why := out_of_time(approval, at, command):
        raise kind.not_permitted(f"{why}{kind.approved_by(plan, at)}")
    return Permit(approval, read_plan(kind, approval, at))


def find_approval(  # noqa: PLR0913  # as `permit`
    kind: PlanKind[P],
    plan: str,
    runs: Iterable[ApprovedRun],
    at: ApprovedAt,
    command: CommandContext,
    *,
    request: str | None = None,
    used: Collection[str] = (),
) -> Approval:
    """As `permit`, before its time is judged and its words are read."""
    try:
        entries = at.destination.approvals.all(command.by)
    except NoApproverTopic:
        if not kind.without_topic:
            raise
        entries = ()
    try:
        return choose(without(entries, used), runs, at.spec.mirror, plan, request)
    except NotApproved as missing:
        raise kind.not_approved(f"{missing.reason}{kind.approved_by(plan, at)}") from missing
    except ApprovalUsed as used_up:
        raise ApprovalUsed(f"{used_up.reason}{kind.approved_by(plan, at)}") from used_up


def read_plan(kind: PlanKind[P], approval: Approval, at: ApprovedAt) -> P:
    """The plan that was approved.

    Raises:
        NotApproved, as the kind has it: it is one of another kind. The kind's `not_permitted`: it is not of the mirror
        as it is now.
    """
    try:
        plan = kind.read(approval.plan_json)
    except (ValueError, KeyError, TypeError, RecursionError) as unreadable:
        raise kind.not_approved(f"approval {approval.id} {kind.unreadable}: {unreadable}") from unreadable
    if not kind.fits(plan, at.spec):
        raise kind.not_permitted(kind.unfit)
    return plan


def out_of_time(approval: Approval, at: ApprovedAt, command: CommandContext) -> str:
    """Why the time does not permit what was approved, in words; empty: it does. See `time_objections`."""
    brokers_time = at.destination.approvals.brokers_time(command.by)
    found = time_objections(approval, command.clock.now(), brokers_time)
    reasons = "; ".join(f"{each.name}: {each.detail}" for each in found)
    return f"approval {approval.id} of plan {approval.plan} is not valid: {reasons}" if reasons else ""


def earlier_answer(
    destination: Cluster, mirror: MirrorName, request: str, command: CommandContext, seconds: float
) -> Entry | None:
    """The answer to `request` that is on record, or comes within `seconds`; None: there is none.

    The process of an earlier try, which was given up, may still write it.

    Raises:
        CouldNotTell, BrokerError: the topic of approvals cannot be read.
    """
    until = command.clock.deadline(seconds)
    while True:
        try:
            found = answer_to(destination.approvals.all(command.by), mirror, request)
        except NoApproverTopic:
            found = None
        if found is not None or not (left := until.left(command.clock.monotonic())):
            return found
        command.clock.wait(min(_LOOK_SECONDS, left))
