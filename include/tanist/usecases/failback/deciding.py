"""`tanist failback decide` and `approve`: what is to become of rescued records, as a plan that somebody approves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.entries import NotApproved, NotPermitted, approvals
from tanist.domain.checks import named
from tanist.domain.errors import AuthorizationFailed, Refused
from tanist.domain.failback.decision import (
    NOTHING_EXPIRED,
    ClassesMissing,
    DecisionPlan,
    ExpiringCounts,
    NothingToDecide,
    TailAction,
    TailClass,
    decided_tails,
    expiry,
    make_decision,
    time_of,
    times_of,
)
from tanist.domain.failback.pending import rescued_tails
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.tails import TailDecision, TailStage
from tanist.usecases.approvals import PlanKind, approve, permit
from tanist.usecases.failback.rescued import ensure_present, records_from, replay_of, rules_of, watch_keys
from tanist.usecases.failback.survey import MirrorReversed
from tanist.usecases.lock import ensure_unlocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.approval.entries import Approval
    from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import TopicTails
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


class DecisionNotApproved(NotApproved):
    operator_action = (
        "`tanist failback decide` shows the plan, and `tanist failback approve NAME HASH --reason TEXT` with the same "
        "options approves it; nothing was changed"
    )


class DecisionRefused(NotPermitted):
    name = "DECISION_NOT_PERMITTED"
    operator_action = "run `tanist failback decide` again and have the new plan approved; nothing was changed"


class DecisionUnfinished(Refused):
    name = "DECISION_UNFINISHED"
    operator_action = "finish it with `tanist failback replay NAME --plan HASH` first; nothing was changed"


class ReplayDenied(AuthorizationFailed):
    name = "REPLAY_DENIED"
    operator_action = (
        "a failover denies the mirror's login WRITE on its topics: run this with another login that may write to them, "
        "to __mirror_state and to the transactional id of the mirror"
    )


class AnotherDecision(Refused):
    name = "ANOTHER_DECISION"
    operator_action = "`tanist failback decide` shows the current plan; nothing was approved"


DECISIONS: Final = PlanKind(
    read=DecisionPlan.read,
    unreadable="is not one of a decision about tails",
    fits=lambda plan, spec: (
        (plan.mirror, plan.mirror_id, plan.source_cluster_id, plan.destination_cluster_id)
        == (spec.mirror, spec.id, spec.source_cluster_id, spec.destination_cluster_id)
    ),
    unfit="the plan is for another mirror, or for other clusters than the mirror has now",
    not_approved=DecisionNotApproved,
    not_permitted=DecisionRefused,
    another=AnotherDecision,
)


def permitted(plan: str, view: StateView, clusters: ReturnedMirror, command: CommandContext) -> TailDecision:
    """The decision as it is on record, or as it is begun on a fresh approval.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, DecisionUnfinished. QuarantineChanged: rescued records
        are not in quarantine any more.
    """
    mirror = clusters.spec.mirror
    held = view.decision(mirror, plan)
    if held is not None and held.status is RunStatus.RUNNING:
        return _with_time(held, clusters, command)
    found = permit(DECISIONS, plan, view.decisions(mirror), clusters, command)
    approval, approved = found.approval, found.approved
    _must_be_alone(approved, view)
    ensure_present(clusters, _must_fit(approved, view), command.by)
    if TailAction.REPLAY in approved.actions.values():
        _must_be_writable(approved, clusters, command)
    started = command.clock.now()
    return TailDecision(
        mirror=mirror,
        mirror_id=clusters.spec.mirror_id,
        plan=plan,
        plan_json=approval.plan_json,
        approval=approval.id,
        approver=approval.approver,
        status=RunStatus.RUNNING,
        started_at=started,
        at=started,
        expired_at=approval.at if approved.expired_at is None else approved.expired_at,
    )


def _with_time(begun: TailDecision, clusters: ReturnedMirror, command: CommandContext) -> TailDecision:
    """The decision with the time by which records have expired. An earlier version stored none: that of the approval.

    It stands in for the time at which the decision was begun where the approval does not exist any more.
    """
    if begun.expired_at >= 0:
        return begun
    side = clusters.destination.approvals
    entries = side.all(command.by) if side.exists(command.by) else ()
    at = next((each.at for each in approvals(entries) if each.id == begun.approval), begun.started_at)
    return replace(begun, expired_at=at)


def _must_be_alone(plan: DecisionPlan, view: StateView) -> None:
    """Raises DecisionUnfinished: another decision about one of these topics is not replayed to its end."""
    for other in view.decisions(plan.mirror):
        if other.status is not RunStatus.RUNNING:
            continue
        if both := sorted(set(plan.topics) & set(DecisionPlan.read(other.plan_json).topics)):
            raise DecisionUnfinished(f"plan {other.plan} of mirror {plan.mirror!r} is not replayed yet: {named(both)}")


def _must_fit(plan: DecisionPlan, view: StateView) -> list[TopicTails]:
    """The rescued tails. Raises NotPermitted if they are not the approved ones."""
    tails = [each for each in rescued_tails(view, plan.mirror) if each.topic in plan.topics]
    if decided_tails(tails) != plan.tails:
        raise DecisionRefused(
            "the rescued tails are not those of the plan: `tanist failback decide` shows the current one"
        )
    return tails


def _must_be_writable(plan: DecisionPlan, clusters: ReturnedMirror, command: CommandContext) -> None:
    """Raises ReplayDenied if this login may not write to the topics."""
    answers = clusters.destination.replays.may_write(plan.topics, command.by)
    if denied := sorted(topic for topic, may in answers.items() if may is False):
        raise ReplayDenied(f"this login may not write to {named(denied, ', ')} at {clusters.spec.destination!r}")


DECISION_COLUMNS = ("topic", "partition", "records", *(str(each) for each in TailClass), "compacted")


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCount:
    """The records of a partition by class, as they are now; see `ExpiringCounts`."""

    partition: MirrorPartition
    records: ExpiringCounts
    compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDecision:
    """`expired_at`: the time by which the plan and the counts judge whether a record has expired."""

    plan: DecisionPlan
    counts: tuple[TailCount, ...]
    expired_at: EpochMs


def plan_decision(
    clusters: ReturnedMirror,
    topics: Selection,
    given: Mapping[TailClass, TailAction],
    command: CommandContext,
    shown: str | None = None,
) -> PlannedDecision:
    """The plan for all tails that are rescued and not decided; changes nothing.

    Of a tail that has grown since an earlier plan was carried out, the records since then are decided about.

    `given`: by class. A class without records that is not given is dropped. `shown`: the hash of a plan that was shown
    before: records that have expired since then are not expired in it. None: the plan as it is now.

    Raises:
        AnotherDecision: the tails do not make the plan that was shown. NothingToDecide: no tail is rescued and
        undecided. ClassesMissing: a class has records, and is not given.
        QuarantineChanged: rescued records are not in quarantine any more.
    """
    view, mirror = clusters.destination.state(STATE_TOPIC, command.by), clusters.spec.mirror
    ensure_unlocked(view, mirror)
    tails = undecided_tails(view, mirror, topics)
    ensure_present(clusters, tails, command.by)
    counts = tuple(each for of in tails for each in _counts(clusters, view, of, command))
    times = times_of(each.records for each in counts)
    actions = {each: given.get(each, TailAction.DROP) for each in TailClass}
    plan = make_decision(clusters.spec, tails, actions, time_of(times, command.clock.now()))
    if shown is not None:
        plan = _as_shown(plan, shown, times)
    expired_at = plan.expired_at or NOTHING_EXPIRED
    total = sum((each.records.at(expired_at) for each in counts), Counter[TailClass]())
    missing = [f"{each} ({total[each]} records)" for each in TailClass if total[each] and each not in given]
    if missing:
        raise ClassesMissing(f"nothing is said about {', '.join(missing)}")
    return PlannedDecision(plan=plan, counts=counts, expired_at=expired_at)


def _as_shown(plan: DecisionPlan, shown: str, times: Iterable[EpochMs]) -> DecisionPlan:
    """Raises AnotherDecision: more than the time differs."""
    found = plan.as_shown(shown, times)
    if found is None:
        raise AnotherDecision(f"{shown} was requested, but the plan is now {plan.hash}")
    return found


def undecided_tails(view: StateView, mirror: MirrorName, topics: Selection) -> tuple[TopicTails, ...]:
    """The topics whose tails are rescued and not decided, by their last promotion.

    Raises:
        NothingToDecide, TopicNotInMirror. MirrorReversed: the mirror was reversed since: its destination is the cluster
        with the tails, and their quarantine is at its source.
    """
    found = {each.topic: each for each in rescued_tails(view, mirror)}
    if not found and any(each.stage is TailStage.RESCUED for each in view.tails(mirror)):
        raise MirrorReversed(f"mirror {mirror!r} was reversed while its rescued tails were undecided")
    if not found:
        raise NothingToDecide(f"no tail of mirror {mirror!r} is rescued and undecided")
    return tuple(found[name] for name in topics.chosen(found, "topic whose tails are rescued and undecided"))


def _counts(clusters: ReturnedMirror, view: StateView, tails: TopicTails, command: CommandContext) -> list[TailCount]:
    rules = rules_of(clusters.destination.topics.describe([tails.topic], command.by)[tails.topic])
    found = []
    for tail in tails.with_records():
        earlier = replay_of(view, tails, tail)
        watch = watch_keys(clusters, tails, tail, rules, view, command.by)
        left = records_from(watch, earlier.end if earlier is not None else 0, command)
        records = ExpiringCounts(
            Counter((watch.classify(each, NOTHING_EXPIRED), expiry(each.time, rules.retention_ms)) for each in left)
        )
        found.append(TailCount(partition=tails.partition_of(tail), records=records, compacted=rules.compacted))
    return found


def approve_decision(  # what an approver says, named
    plan_hash: str,
    topics: Selection,
    given: Mapping[TailClass, TailAction],
    clusters: ReturnedMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
) -> Approval:
    """Put our name under a plan, if the rescued tails still make it. Time alone makes no other plan.

    Raises:
        AnotherDecision: they make another one. NoApproverTopic. AuthorizationFailed: we are no approver. Misconfigured.
    """
    plan = plan_decision(clusters, topics, given, command, plan_hash).plan
    return approve(DECISIONS, plan_hash, plan, terms, clusters, command)


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def decision_item(found: PlannedDecision) -> dict[str, Any]:
    """The plan, with the number of records by class as it is now. `expired_at_ms`: None: no record has expired."""
    plan = found.plan
    return {
        "mirror": plan.mirror,
        "plan_hash": plan.hash,
        "expired_at_ms": found.expired_at or None,
        "actions": {str(name): str(action) for name, action in plan.actions.items()},
        "tails": [_count_item(each, found.expired_at) for each in found.counts],
    }


def _count_item(of: TailCount, expired_at: EpochMs) -> dict[str, Any]:
    found = of.records.at(expired_at)
    counts = {str(each): found[each] for each in TailClass}
    return {
        "topic": of.partition.topic,
        "partition": of.partition.partition,
        "records": sum(counts.values()),
        **counts,
        "compacted": of.compacted,
    }
