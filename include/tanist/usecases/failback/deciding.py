"""`tanist failback decide` and `approve`: what is to become of rescued records, as a plan that somebody approves."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.entries import NotApproved, NotPermitted, approvals
from tanist.domain.checks import named
from tanist.domain.errors import AuthorizationFailed, Refused
from tanist.domain.failback.approved_decision import approved_decision
from tanist.domain.failback.decision import (
    DEFAULT_ACTIONS,
    NOTHING_EXPIRED,
    ClassesMissing,
    DecisionApproved,
    DecisionPlan,
    DecisionUnfinished,
    ExpiringCounts,
    NothingToDecide,
    TailAction,
    TailClass,
    decided_tails,
    every_choice,
    expiry,
    make_decision,
    said,
    time_of,
    times_of,
)
from tanist.domain.failback.pending import rescued_tails
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.tails import TailDecision, TailStage
from tanist.usecases.approvals import PlanKind, approve, approve_at_once, permit, stored_entries
from tanist.usecases.failback.rescued import ensure_present, records_from, replay_of, rules_of, watch_keys
from tanist.usecases.failback.survey import MirrorReversed
from tanist.usecases.lock import ensure_unlocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
        "`tanist failback decide` shows what is to be approved; `tanist failback replay NAME --reason TEXT` approves "
        "and replays it; nothing was changed"
    )


class DecisionRefused(NotPermitted):
    name = "DECISION_NOT_PERMITTED"
    operator_action = "run `tanist failback decide` again and have the new plan approved; nothing was changed"


class ReplayDenied(AuthorizationFailed):
    name = "REPLAY_DENIED"
    operator_action = (
        "a failover denies the mirror's login WRITE on its topics: run this with another login that may write to them, "
        "to __mirror_state and to the transactional id of the mirror; in Airflow the connection PRIMARY_replay"
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
    command="tanist failback approve {mirror} {plan} --destination {destination} --reason 'as shown'",
)


_FAILBACK: Final = ("tanist", "failback")


def permitted(
    plan: str, view: StateView, clusters: ReturnedMirror, command: CommandContext, request: str | None = None
) -> TailDecision:
    """The decision as it is on record, or as it is begun on a fresh approval. `request`: as in `permit`.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, DecisionUnfinished. QuarantineChanged: rescued records
        are not in quarantine any more.
    """
    mirror = clusters.spec.mirror
    held = view.decision(mirror, plan)
    if held is not None and held.status is RunStatus.RUNNING:
        return _with_time(held, clusters, command)
    found = permit(DECISIONS, plan, view.decisions(mirror), clusters, command, request=request)
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
            raise DecisionUnfinished(other.plan, f"of mirror {plan.mirror!r} is not replayed yet: {named(both)}")


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
    """The records of a partition by class, as they are now; see `ExpiringCounts`. `quarantine`: the topic with them."""

    partition: MirrorPartition
    records: ExpiringCounts
    compacted: bool
    quarantine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDecision:
    """`expired_at`: the time by which the plan and the counts judge whether a record has expired."""

    plan: DecisionPlan
    counts: tuple[TailCount, ...]
    expired_at: EpochMs

    @property
    def records(self) -> Counter[TailClass]:
        """How many there are of each class."""
        return sum((each.records.at(self.expired_at) for each in self.counts), Counter[TailClass]())

    def __str__(self) -> str:
        return said(self.plan.actions, self.records, (each.quarantine for each in self.counts))


def plan_decision(
    clusters: ReturnedMirror,
    topics: Selection,
    given: Mapping[TailClass, TailAction],
    command: CommandContext,
    shown: str | None = None,
) -> PlannedDecision:
    """The plan for all tails that are rescued and not decided; changes nothing.

    Of a tail that has grown since an earlier plan was carried out, the records since then are decided about.

    `given`: by class. A class without records that is not given is dropped. Empty: DEFAULT_ACTIONS, or what the plan
    `shown` says. `shown`: the hash of a plan that was shown before: records that have expired since then are not
    expired in it. None: the plan as it is now.

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
    actions = {each: (given or DEFAULT_ACTIONS).get(each, TailAction.DROP) for each in TailClass}
    plan = make_decision(clusters.spec, tails, actions, time_of(times, command.clock.now()))
    if shown is not None:
        plan = _as_shown(plan, shown, times, () if given else every_choice())
    found = PlannedDecision(plan=plan, counts=counts, expired_at=plan.expired_at or NOTHING_EXPIRED)
    left = {each: count for each, count in found.records.items() if count and given and each not in given}
    if left:
        missing = ", ".join(f"{each} ({left[each]} records)" for each in TailClass if each in left)
        raise ClassesMissing(f"nothing is said about {missing}")
    return found


def _as_shown(
    plan: DecisionPlan, shown: str, times: Iterable[EpochMs], choices: Iterable[Mapping[TailClass, TailAction]]
) -> DecisionPlan:
    """Raises AnotherDecision: more than the time differs, and than the `choices`."""
    found = plan.as_shown(shown, times, choices)
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
        at = tails.partition_of(tail)
        found.append(TailCount(partition=at, records=records, compacted=rules.compacted, quarantine=tails.quarantine))
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

    `given`: as in `plan_decision`.

    Raises:
        AnotherDecision: they make another one. NoApproverTopic. AuthorizationFailed: we are no approver. Misconfigured.
    """
    plan = plan_decision(clusters, topics, given, command, plan_hash).plan
    return approve(DECISIONS, plan_hash, plan, terms, clusters, command)


def unfinished_decision(
    view: StateView, mirror: MirrorName, topics: Selection, plan: str | None = None
) -> TailDecision | None:
    """The decision about some of `topics`, or with that `plan`, whose replay was cut short; None: there is none."""
    for each in view.decisions(mirror):
        about = topics.among(DecisionPlan.read(each.plan_json).topics) if plan is None else each.plan == plan
        if each.status is RunStatus.RUNNING and about:
            return each
    return None


def decide_at_once(  # noqa: PLR0913  # what an approver says, named
    plan: str | None,
    topics: Selection,
    given: Mapping[TailClass, TailAction],
    clusters: ReturnedMirror,
    command: CommandContext,
    *,
    terms: ApprovalTerms,
    show: Callable[[PlannedDecision], object],
) -> str:
    """The hash of the plan to replay: of one that was begun, else of the present one, which is approved here.

    `plan`: which one that must be; None: any. `show`: is given the present one before it is approved. A dry run
    approves nothing.

    Raises:
        DecisionUnfinished: another one was begun. DecisionApproved: another one is approved, and `plan` names none.
        What `plan_decision` and `approve_at_once` raise.
    """
    view, spec = clusters.destination.state(STATE_TOPIC, command.by), clusters.spec
    held = unfinished_decision(view, spec.mirror, topics, plan) or view.decision(spec.mirror, plan or "")
    if held is not None:
        _must_say_the_same(held, {} if plan else given)
        return held.plan
    found = plan_decision(clusters, topics, given, command, plan)
    made = found.plan.hash
    other = approved_decision(view, spec.mirror, stored_entries(clusters, command), command.clock.now())
    if plan is None and other not in {"", made}:
        raise DecisionApproved(other, made)
    show(found)
    if not command.dry_run:
        where = ("--destination", clusters.destination.name)
        chosen = [word for each in topics.include for word in ("--topic", each)]
        chosen += [word for each in topics.exclude for word in ("--exclude", each)]
        approve_at_once(
            lambda: permit(DECISIONS, made, view.decisions(spec.mirror), clusters, command),
            lambda: approve(DECISIONS, made, found.plan, terms, clusters, command),
            (
                shlex.join((*_FAILBACK, "approve", spec.mirror, made, *where, *chosen, "--reason", terms.reason)),
                shlex.join((*_FAILBACK, "replay", spec.mirror, *where, "--plan", made)),
            ),
            command,
        )
    return made


def _must_say_the_same(held: TailDecision, given: Mapping[TailClass, TailAction]) -> None:
    """Raises DecisionUnfinished: what was begun says something else about these classes."""
    begun = DecisionPlan.read(held.plan_json).actions
    if unlike := [f"{begun[each]} {each}" for each, action in given.items() if begun[each] is not action]:
        raise DecisionUnfinished(held.plan, f"is begun, and says: {named(unlike, ', ')}")


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def decision_item(found: PlannedDecision) -> dict[str, Any]:
    """The plan, with the number of records by class as it is now. `expired_at_ms`: None: no record has expired.

    `records`: of all partitions, by class; `default`: whether the actions are those of nobody's choice.
    """
    plan, records = found.plan, found.records
    return {
        "mirror": plan.mirror,
        "plan_hash": plan.hash,
        "expired_at_ms": found.expired_at or None,
        "actions": {str(name): str(action) for name, action in plan.actions.items()},
        "default": plan.actions == DEFAULT_ACTIONS,
        "records": {str(each): records[each] for each in TailClass},
        "quarantine": sorted({each.quarantine for each in found.counts}),
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
