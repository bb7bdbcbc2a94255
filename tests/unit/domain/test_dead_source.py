"""A dead source stands still: without a look at it the clock changes no plan, no hash and no permission."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.entries import Approval, NotPermitted
from tanist.domain.checks import Mode, Readiness
from tanist.domain.failover.facts import Facts, LiveEnd, ObservedTopic, PartitionFacts, SourceState
from tanist.domain.failover.limitations import limitations, make_plan, planned_intent, word
from tanist.domain.failover.objections import news, objections, only_for_now
from tanist.domain.failover.plan import ApprovedPlan, Intent, Plan
from tanist.domain.fences import FencedTopic, FenceStatus, ended_since
from tanist.domain.lag import KnownEnd
from tanist.domain.logins import NOT_KNOWN_MS
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.usecases.approvals import Permit
from tanist.usecases.command import CommandContext
from tanist.usecases.failover.approval_gate import ApprovalGate, ApprovalVoid
from tanist.usecases.failover.route import STEP_IDS
from tests.builders import a_run
from tests.fakes.clock import JumpingClock
from tests.unit.domain.facts_drawn import FOLLOWED, HEALTHY, MIRROR, NOW, drawn, intents, silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.records import FailoverRun

ROUTE = ("hold", "fence", "drain", "groups", "seal")
DAY_MS = 24 * 3_600_000
SEEDS = range(150)


def at(facts: Facts, ms: int) -> Facts:
    """The same `ms` later, without a look at the source. A worker may go on asking in vain, and store that once."""
    return replace(facts, now=EpochMs(facts.now + ms))


def asked_in_vain(facts: Facts, luck: Random) -> Facts:
    """Somebody has asked since, and got no answer: that is no look."""
    since = EpochMs(facts.now - luck.randrange(60_000))
    return replace(
        facts,
        workers_alive=luck.randrange(3),
        partitions=tuple(replace(each, known=_vain(each.known, since)) for each in facts.partitions),
        followed=facts.followed and replace(facts.followed, at=facts.now),
    )


def _vain(known: KnownEnd | None, since: EpochMs) -> KnownEnd | None:
    if known is None or known.silent_since is not None:
        return known
    return replace(known, silent_since=EpochMs(max(since, known.at)))


def dead(seed: int) -> Facts:
    """Anything may be the matter but that the source answers."""
    facts = drawn(seed)
    without = tuple(replace(each, live=None, longer=False) for each in facts.partitions)
    source = replace(facts.source, state=SourceState.SILENT, uncopied=(), new_topics=(), transactions=())
    seen = tuple(
        replace(each, fence_stands=None, acls_changed=(), source_fence=_on_record(each)) for each in facts.topics
    )
    return bounded(
        replace(facts, source=source, partitions=without, topics=seen, run=None, others_running=()), also=seed % 2 == 0
    )


def _on_record(seen: ObservedTopic) -> FencedTopic | None:
    fence = seen.source_fence
    return None if fence is None or fence.status is FenceStatus.UNRECORDED else fence


def bounded(facts: Facts, *, also: bool = False) -> Facts:
    """With what the fences on record prove. `also`: where there is none, what was drawn stays."""
    fences = {each.topic: each.source_fence for each in facts.topics}
    seen: dict[str, EpochMs] = {}
    for each in facts.partitions:
        if each.known is not None:
            seen[each.partition.topic] = max(each.known.at, seen.get(each.partition.topic, each.known.at))

    def since(of: PartitionFacts) -> EpochMs | None:
        name = of.partition.topic
        if fences[name] is None:
            return of.fenced_since if also else None
        return ended_since(fences[name], seen.get(name), stands=None)

    return replace(facts, partitions=tuple(replace(each, fenced_since=since(each)) for each in facts.partitions))


def intent(seed: int, facts: Facts) -> Intent:
    luck = Random(seed)
    since = luck.choice((None, None, EpochMs(NOW - luck.randrange(700_000))))
    bare = replace(intents()[Mode.UNPLANNED], dead_since=since, reserve=luck.choice((0, 10, 300_000)))
    ids = {each.topic: each.source_id for each in facts.topics}
    bare = replace(bare, topics=tuple(replace(each, source_id=ids[each.topic]) for each in bare.topics))
    return planned_intent(bare, facts, luck.choice((None, None, 0, 50)))


def running(facts: Facts, luck: Random) -> FailoverRun:
    """A run that has begun, up to some step before the point of no return."""
    return a_run(
        mirror=MIRROR, marks=luck.choice(((), ("drain",), ("drain", "groups"))), started_at=facts.now, at=facts.now
    )


def waited(facts: Facts, luck: Random) -> Facts:
    """0 s to 7 days later, at a destination that has aged with them: a login that was awaited is known, or never is."""
    ms = luck.choice(
        (0, 1, 900, 9_000, 31_000, 600_000, luck.randrange(DAY_MS), luck.randrange(7 * DAY_MS), 7 * DAY_MS)
    )
    awaited = facts.logins_awaited if ms < NOT_KNOWN_MS else ()
    return asked_in_vain(replace(at(facts, ms), logins_awaited=awaited), luck)


def told(facts: Facts, luck: Random) -> Facts:
    """A plan waits for the login of a worker that has just started."""
    while facts.logins_awaited:
        facts = waited(facts, luck)
    return facts


def owed(facts: Facts, _luck: Random) -> Facts:
    """The step `fence` of a source that does not answer."""
    return bounded(replace(facts, topics=tuple(replace(each, source_fence=_owed(each)) for each in facts.topics)))


def _owed(seen: ObservedTopic) -> FencedTopic:
    held = seen.source_fence
    if held is not None and held.status in {FenceStatus.PROVED, FenceStatus.UNPROVED}:
        return replace(held, wanted_by="cafe")
    pending = FencedTopic(topic=seen.topic, status=FenceStatus.PENDING, wanted_by="cafe")
    if held is None or held.before is None or held.status is FenceStatus.LIFTED:
        return pending
    return replace(pending, before=held.before, proved_at=held.proved_at, lift_asked_at=held.lift_asked_at)


def _marked(facts: Facts, **changes: Any) -> Facts:
    assert facts.run is not None
    return replace(facts, run=replace(facts.run, **changes))


STEPS: tuple[Callable[[Facts, Random], Facts], ...] = (
    lambda facts, luck: replace(facts, run=replace(running(facts, luck), marks=())),
    owed,
    lambda facts, _: _marked(facts, marks=("drain",)),
    lambda facts, _: _marked(facts, marks=("drain", "groups")),
)
"""Of a run before its point of no return, one after the other."""


def intents_of(asked: Intent) -> Intent:
    """What was asked for, before facts fill in the rest."""
    bare = intents()[asked.mode]
    topics = tuple(replace(each, promotion_epoch=0, copy_id="") for each in asked.topics)
    return replace(bare, topics=topics, dead_since=asked.dead_since, reserve=asked.reserve)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_hash_and_no_permission_changes_while_nobody_sees_the_source(seed: int) -> None:
    """Five approvals and ten of ten runs were refused in 501 s: the clock was the reason each time."""
    luck, facts = Random(seed), dead(seed)
    facts = told(facts, luck)
    asked = intent(seed, facts)
    plan = make_plan(asked, facts, ROUTE)
    blocked = {each.name for each in plan.limitations if each.blocks}
    approved = ApprovedPlan.read(plan.canonical_plan)
    for step in (None, None, *STEPS, None):
        for _ in range(2):
            facts = waited(facts, luck)
        facts = step(facts, luck) if step is not None else facts
        again = planned_intent(intents_of(asked), facts, asked.loss_tolerance)
        assert again == asked
        assert make_plan(again, facts, ROUTE).hash == plan.hash
        assert {each.name for each in news(approved, facts)} <= blocked, "only what blocked the plan itself"


def permitted(seed: int, luck: Random) -> tuple[Facts, Plan]:
    """The first plan of this seed, or of one of the next rounds, that somebody can approve."""
    for drawn_as in range(seed, 1_000_000, len(SEEDS)):
        facts = told(dead(drawn_as), luck)
        plan = make_plan(intent(drawn_as, facts), facts, STEP_IDS)
        if not any(each.blocks for each in plan.limitations):
            return facts, plan
    raise AssertionError("no plan can be approved")


def gate(plan: Plan, facts: Facts, brokers_time: EpochMs | None) -> ApprovalGate:
    """That of a run of an orchestrator, at the time of `facts`."""
    clock = JumpingClock(epoch_ms=facts.now)
    approvals: Any = SimpleNamespace(brokers_time=lambda _by: brokers_time)
    clusters: Any = SimpleNamespace(destination=SimpleNamespace(name="west", approvals=approvals))
    return ApprovalGate(plan.hash, "run/dag/1", clusters, CommandContext(clock=clock, by=clock.deadline(60)))


def refused(plan: Plan, approval: Approval, facts: Facts, brokers_time: EpochMs | None) -> set[str]:
    """Why the gate does not let the run begin, or go on; empty: it does."""
    approved = ApprovedPlan.read(plan.canonical_plan)
    try:
        gate(plan, facts, brokers_time).must_permit(Permit(approval, approved), facts)
    except NotPermitted as why:
        kind = type(why)
    else:
        return set()
    assert kind is (NotPermitted if facts.run is None else ApprovalVoid)
    return {each.name for each in objections(approval, approved, facts, STEP_IDS, facts.now, brokers_time)}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_approval_ends_by_its_expiry_or_a_clock_that_is_behind_alone(seed: int) -> None:
    luck = Random(seed)
    facts, plan = permitted(seed, luck)
    facts = waited(facts, luck)
    approval = Approval(
        id="0-0",
        mirror=MIRROR,
        plan=plan.hash,
        plan_json=plan.canonical_plan,
        approver="carol",
        reason="",
        valid_for_ms=luck.choice((60_000, DAY_MS, 7 * DAY_MS)),
        at=EpochMs(facts.now + luck.choice((0, 0, 4_000))),
    )
    for step in (None, *STEPS, None):
        facts = waited(facts, luck)
        facts = step(facts, luck) if step is not None else facts
        theirs = luck.choice((None, facts.now, EpochMs(facts.now + 4_000), EpochMs(facts.now + 6_000)))
        latest = max(approval.at, theirs or approval.at)
        expired, behind = max(facts.now, latest) >= approval.expires_at, facts.now < latest - Approval.SKEW_MS
        expected = {"APPROVAL_EXPIRED"} if expired else set()
        assert refused(plan, approval, facts, theirs) == expected | ({"CLOCK_BEHIND"} if behind else set())
    facts = waited(_marked(facts, no_return=True), luck)
    assert not refused(plan, approval, facts, EpochMs(facts.now + DAY_MS)), "behind the point of no return nobody asks"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_verdict_may_change_with_the_clock_but_never_to_no_go(seed: int) -> None:
    facts = dead(seed)
    asked = intent(seed, facts)
    before, after = word(limitations(asked, facts)), word(limitations(asked, at(facts, DAY_MS)))
    assert before is after or (before, after) == (Readiness.GO, Readiness.ACCEPT)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_source_that_answers_again_voids_nothing_by_answering(seed: int) -> None:
    """Nine seconds down, eight up: SOURCE_ALIVE, NEAR_FENCE and OPEN_TRANSACTIONS came and went with its answers."""
    luck, before = Random(seed), silent()
    up = replace(
        before,
        source=replace(
            before.source,
            state=luck.choice((SourceState.ALIVE, SourceState.PARTLY)),
            authorizer=luck.choice((True, False, None)),
            transactions=luck.choice(((), drawn(0).source.transactions)),
            transactions_told=luck.choice((True, False, None)),
        ),
        partitions=tuple(
            replace(each, live=alive.live) if luck.random() < 0.7 else each
            for each, alive in zip(before.partitions, HEALTHY.partitions, strict=True)
        ),
    )
    for first, then in ((before, up), (up, before)):
        plan = make_plan(planned_intent(intents()[Mode.UNPLANNED], first, None), first, ROUTE)
        assert not news(ApprovedPlan.read(plan.canonical_plan), then)
        again = planned_intent(intents()[Mode.UNPLANNED], then, plan.intent.loss_tolerance)
        assert make_plan(again, then, ROUTE).hash == plan.hash


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_destination_does_not_tell_for_the_moment_is_waited_for(seed: int) -> None:
    luck, facts = Random(seed), silent()
    approved = ApprovedPlan.read(
        make_plan(planned_intent(intents()[Mode.UNPLANNED], facts, None), facts, ROUTE).canonical_plan
    )
    number = luck.randrange(len(facts.partitions))
    away = luck.choice(
        (
            {"end": None, "copied": None, "in_sync": None, "min_in_sync": None, "foreign": None, "start": None},
            {"in_sync": 0},
            {"in_sync": 1},
            {"in_sync": None},
            {"foreign": None},
        )
    )
    one = replace(facts.partitions[number], **away)
    now = replace(facts, partitions=(*facts.partitions[:number], one, *facts.partitions[number + 1 :]))
    found = news(approved, now)
    assert only_for_now(found), found
    assert not news(approved, replace(now, partitions=facts.partitions))


def test_positions_of_groups_grow_old_without_a_word_of_the_clock_in_the_plan() -> None:
    """GROUP_POSITIONS_OLD came 30 s after the source had died."""
    fresh = silent()
    old = replace(at(fresh, DAY_MS), followed=replace(FOLLOWED, complete_until_ms=EpochMs(NOW - 600_000)))
    plans = [make_plan(planned_intent(intents()[Mode.UNPLANNED], each, None), each, ROUTE) for each in (fresh, old)]
    assert plans[0].hash == plans[1].hash
    never = replace(fresh, followed=None)
    assert "GROUP_POSITIONS_OLD" in {each.name for each in limitations(plans[0].intent, never)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_planned_plan_stands_still_under_a_busy_source(seed: int) -> None:
    """Lag, rates and states of the drain are forecast: they move all the time."""
    luck = Random(seed)

    def busy() -> Facts:
        moved = []
        for each in HEALTHY.partitions:
            end, behind, held = luck.randrange(1_000_000), luck.choice((0, 0, 3, 50_000)), luck.choice((0, 0, 7))
            copied = max(0, end - behind - held)
            live = LiveEnd(SourceOffset(end), SourceOffset(end - held), SourceOffset(end + luck.choice((0, 9))))
            known = KnownEnd(SourceOffset(copied), NOW, luck.choice((0.0, 20_000.0)), SourceOffset(0))
            ends = {
                "end": DestinationOffset(copied),
                "copied": SourceOffset(copied),
                "named": luck.choice((True, False)),
            }
            moved.append(replace(each, live=live, known=known, **ends))  # type: ignore[arg-type]
        return replace(HEALTHY, partitions=tuple(moved), now=EpochMs(NOW + luck.randrange(DAY_MS)))

    plans = [
        make_plan(planned_intent(intents()[Mode.PLANNED], facts, None), facts, ROUTE) for facts in (busy(), busy())
    ]
    assert plans[0].hash == plans[1].hash
    assert not news(ApprovedPlan.read(plans[0].canonical_plan), busy())
