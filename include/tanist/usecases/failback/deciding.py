"""`tanist failback decide` and `approve`: what is to become of rescued records, as a plan that somebody approves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tanist.domain.errors import Refused
from tanist.domain.failback.decision import (
    NOTHING_EXPIRED,
    ClassesMissing,
    ExpiringCounts,
    NothingToDecide,
    TailAction,
    TailClass,
    expiry,
    make_decision,
    time_of,
    times_of,
)
from tanist.domain.failback.pending import rescued_tails
from tanist.domain.records import STATE_TOPIC
from tanist.domain.tails import TailStage
from tanist.usecases.approvals import sign
from tanist.usecases.failback.classifying import records_from, replay_of, rules_of, watch_keys
from tanist.usecases.failback.quarantined import ensure_present
from tanist.usecases.failback.survey import MirrorReversed
from tanist.usecases.lock import ensure_unlocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.failback.decision import DecisionPlan
    from tanist.domain.failover.approving import Approval
    from tanist.domain.names import EpochMs, MirrorName, TopicPartition
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import TopicTails
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror

DECISION_COLUMNS = ("topic", "partition", "records", *(str(each) for each in TailClass), "compacted")


class AnotherDecision(Refused):
    name = "ANOTHER_DECISION"
    operator_action = "`tanist failback decide` shows the current plan; nothing was approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCount:
    """The records of a partition by class, as they are now; see `ExpiringCounts`."""

    partition: TopicPartition
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
    return sign(plan.canonical_plan, terms, clusters, command)


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
