"""`tanist failover plan|approve|status|abort`: what is looked at, and what is said, before anything is done."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import GroupNotInMirror, Misconfigured, Refused, TopicNotInMirror
from tanist.domain.failover.approving import (
    LONGEST_MS,
    Approval,
    ApprovalRequest,
    NoApproverTopic,
    Withdrawal,
    approved,
    command_request,
    signature,
)
from tanist.domain.failover.forecast import Forecast, forecast
from tanist.domain.failover.limitations import make_plan, planned_intent, word
from tanist.domain.failover.objections import news
from tanist.domain.failover.plan import ApprovedPlan, Intent, Plan, TopicIntent, hash_of
from tanist.domain.failover.reserve import DEFAULT_RESERVE, SKEW_MS, Reserve, reserve
from tanist.domain.problems import refuse
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC
from tanist.domain.selection import EVERYTHING, Selection, pattern_problems
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.reversible import must_be_reversible, of_reversal
from tanist.usecases.failover.route import STEP_IDS, ids, remaining

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext
    from tanist.usecases.snapshot import MirrorSnapshot


class AnotherPlan(Refused):
    name = "ANOTHER_PLAN"
    operator_action = "`tanist failover plan` shows the current plan; nothing was approved"


class PlanBlocked(Refused):
    name = "PLAN_BLOCKED"
    operator_action = (
        "this plan cannot be approved: resolve the limitations named above and plan again; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """Which failover. `loss_tolerance`: offsets that may be lost; None: what is forecast now.

    `groups`: whose positions are translated, by regular expressions for whole names. `reserve`, `dead_since`: as in
    `Intent`; a planned failover has neither. `reserve` None: DEFAULT_RESERVE. `reverse`: as in `Intent`.
    """

    mode: Mode = Mode.PLANNED
    include: tuple[str, ...] = EVERYTHING
    loss_tolerance: int | None = None
    groups: tuple[str, ...] = EVERYTHING
    reserve: int | None = None
    dead_since: EpochMs | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    plan: Plan
    facts: Facts
    forecast: Forecast
    left: tuple[str, ...]

    @property
    def word(self) -> Readiness:
        """As `tanist status` says it of the same facts."""
        return word(self.plan.limitations)

    @property
    def reserve(self) -> Reserve:
        """What is reserved, as the facts are now."""
        return reserve(self.plan.intent, self.facts)

    @property
    def blocked(self) -> bool:
        return any(reason.blocks for reason in self.plan.limitations)


def plan(request: FailoverRequest, clusters: FailoverContext, command: CommandContext) -> Planned:
    """The plan as the facts make it now; changes nothing.

    Raises:
        TopicNotInMirror, GroupNotInMirror: an expression matches nothing of the mirror. Misconfigured: it is none.
    """
    if request.dead_since is not None and request.dead_since > command.clock.now() + SKEW_MS:
        raise Misconfigured(f"--source-dead-since lies in the future: {request.dead_since} ms")
    with closing(Observer(clusters=clusters, context=command)) as observer:
        snapshot = observer.snapshot()
        view = snapshot.destination.state(STATE_TOPIC, command.by)
        wanted = chosen(view, clusters, request.include)
        if request.reverse:
            must_be_reversible(request.mode, wanted, view.mirrored(clusters.spec.mirror))
        _must_match(request.groups, snapshot, command)
        facts = observer.look(wanted, snapshot=snapshot)
        bare = intent_of(clusters.spec, request, wanted)
        made = make_plan(planned_intent(bare, facts, request.loss_tolerance), facts, STEP_IDS)
    if request.reverse:
        made = replace(
            made, limitations=tuple(sorted((*made.limitations, *of_reversal(clusters, made.intent, command))))
        )
    left = ids(remaining(made.intent, facts))
    return Planned(plan=made, facts=facts, forecast=forecast(made.intent, facts), left=left)


def intent_of(spec: MirrorSpec, request: FailoverRequest, wanted: Sequence[TopicDesired]) -> Intent:
    """What is asked for, before the facts fill in the rest."""
    unplanned = request.mode is Mode.UNPLANNED
    budget = DEFAULT_RESERVE if request.reserve is None else request.reserve
    return Intent(
        mirror=spec.mirror,
        mirror_id=spec.id,
        mode=request.mode,
        source_cluster_id=spec.source_cluster_id,
        destination_cluster_id=spec.destination_cluster_id,
        topics=tuple(TopicIntent(topic=t.topic, partitions=t.partitions) for t in wanted),
        groups=request.groups,
        reserve=budget if unplanned else 0,
        dead_since=request.dead_since if unplanned else None,
        reverse=request.reverse,
    )


def chosen(view: StateView, clusters: FailoverContext, include: Sequence[str]) -> tuple[TopicDesired, ...]:
    """The topics that `include` names, of those that are in the mirror.

    Raises:
        TopicNotInMirror, Misconfigured.
    """
    if problems := pattern_problems(include):
        refuse(problems)
    mirror = clusters.spec.mirror
    inside = {topic.topic: topic for topic in view.mirrored(mirror)}
    selection = Selection(tuple(include))
    idle = selection.idle(tuple(inside))
    if idle or not inside:
        has = ", ".join(sorted(inside)[:5]) or "none"
        refuse(
            TopicNotInMirror(f"{text!r} matches no topic of mirror {mirror!r}, which has {has}")
            for text in idle or include
        )
    return tuple(inside[name] for name in selection.of(inside))


def _must_match(groups: tuple[str, ...], snapshot: MirrorSnapshot, command: CommandContext) -> None:
    """An expression that matches none of the groups that are kept is a typing mistake."""
    if problems := pattern_problems(groups):
        refuse(problems)
    if groups == EVERYTHING:
        return
    spec, view = snapshot.spec, snapshot.destination.state(GROUPS_TOPIC, command.by)
    kept = {each.group for each in view.group_positions(spec)}
    if idle := Selection(groups).idle(tuple(kept)):
        refuse(GroupNotInMirror(f"{text!r} matches no group of mirror {spec.mirror!r}") for text in idle)


def must_not_be_blocked(found: Planned) -> None:
    """Raises PlanBlocked, with everything that nobody can accept."""
    if found.blocked:
        raise PlanBlocked("; ".join(f"{r.name}: {r.detail}" for r in found.plan.limitations if r.blocks))


def must_give_a_reason(reason: str) -> None:
    """Raises Misconfigured where there is none. For callers that have not asked any cluster yet, too."""
    if not reason.strip():
        raise Misconfigured("an approval needs a --reason, which is stored with it")


def approve_any(  # as `approve`
    plan_hash: str,
    request: Sequence[FailoverRequest],
    clusters: FailoverContext,
    command: CommandContext,
    *,
    reason: str,
    valid_seconds: float,
) -> Approval:
    """Approve the plan where one of the wishes `request` makes it; what is raised names what each of them makes.

    Raises:
        What `approve` does.
    """
    others: list[str] = []
    for each in request:
        try:
            return approve(plan_hash, each, clusters, command, reason=reason, valid_seconds=valid_seconds)
        except AnotherPlan as other:
            others.append(other.reason)
    raise AnotherPlan("; ".join(others))


def approve(  # noqa: PLR0913  # what an approver says, named
    plan_hash: str,
    wanted: FailoverRequest,
    clusters: FailoverContext,
    command: CommandContext,
    *,
    reason: str,
    valid_seconds: float,
    on_behalf_of: str = "",
    request: str = "",
    shown: str = "",
) -> Approval:
    """Put our name under a plan, if the facts still make it.

    `shown`: the words of that plan, as somebody has seen them who decides later. They are approved as well where since
    then nothing has changed but that less speaks against it: a fence that was lifted meanwhile voids no answer.

    `on_behalf_of`: who decided, where that is not whom our connection logs in as; both names are on record.
    `request`: of the orchestrator's run that asked, which alone it permits; empty: a command's own.

    Raises:
        AnotherPlan: the facts make another one. PlanBlocked: what nobody can accept. NoApproverTopic.
        AuthorizationFailed: we are no approver.
    """
    must_give_a_reason(reason)
    valid_for_ms = round(valid_seconds * 1000)
    if not 0 < valid_for_ms <= LONGEST_MS:
        raise Misconfigured(f"--valid must be up to {LONGEST_MS / 3_600_000:.0f} h")
    signature("", on_behalf_of)  # raises before anything is asked
    now = plan(wanted, clusters, command)
    words = _words(plan_hash, shown, now)
    must_not_be_blocked(now)
    _must_have_a_topic(now.facts, clusters, command)
    signed = ApprovalRequest(
        mirror=clusters.spec.mirror,
        plan=plan_hash,
        plan_json=words,
        request=request or command_request(plan_hash, token_hex(8)),
        reason=reason,
        valid_for_ms=valid_for_ms,
        on_behalf_of=on_behalf_of,
    )
    approval = clusters.destination.approvals.append(signed, command.by)
    approved(approval)
    return approval


def _must_have_a_topic(facts: Facts, clusters: FailoverContext, command: CommandContext) -> None:
    """The approvers' topic is made here only where the cluster has no authorizer.

    With one, whoever makes it must also say who may write to it.

    Raises:
        NoApproverTopic.
    """
    approvals = clusters.destination.approvals
    if approvals.exists(command.by):
        return
    if facts.destination_authorizer is not False:
        raise NoApproverTopic(f"destination {clusters.spec.destination!r} has none")
    approvals.create(command.by)


def _words(plan_hash: str, shown: str, now: Planned) -> str:
    """The words of the plan `plan_hash`, where the facts make it, or permit it as it was `shown`.

    Raises:
        AnotherPlan.
    """
    if now.plan.hash == plan_hash:
        return now.plan.canonical_plan
    if hash_of(shown) == plan_hash:
        seen = ApprovedPlan.read(shown)
        if seen.intent == now.plan.intent and seen.steps == now.plan.steps and not news(seen, now.facts):
            return shown
    wanted = now.plan.intent
    raise AnotherPlan(
        f"{plan_hash} was requested, but the {wanted.mode} plan is now {now.plan.hash} with "
        f"{wanted.loss_tolerance} offsets tolerated (give --max-loss where this number moves)"
    )


def withdraw(
    plan_hash: str, clusters: FailoverContext, command: CommandContext, *, request: str = "", reason: str
) -> None:
    """Take back what was approved of a plan, as far as no failover has begun on it: one that has goes on.

    `request`: only what answers it, also if that is written later; empty: whatever was approved before.

    Raises:
        NoApproverTopic. AuthorizationFailed: we are no approver, nothing was withdrawn.
    """
    no = Withdrawal(mirror=clusters.spec.mirror, plan=plan_hash, request=request, reason=reason)
    clusters.destination.approvals.withdraw(no, command.by)
