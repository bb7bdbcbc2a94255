"""A dead source stands still: without a look at it the clock changes no plan, no hash and no permission."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tanist.domain.checks import Mode, Readiness
from tanist.domain.failover.approving import Approval
from tanist.domain.failover.facts import Facts, LiveEnd, SourceState
from tanist.domain.failover.limitations import limitations, make_plan, planned_intent, word
from tanist.domain.failover.objections import news, objections, only_for_now
from tanist.domain.failover.plan import ApprovedPlan, Intent
from tanist.domain.lag import KnownEnd
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.records import FailoverRun, RunStatus
from tests.unit.domain.facts_drawn import FOLLOWED, HEALTHY, MIRROR, NOW, drawn, intents, silent

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
    return replace(facts, source=source, partitions=without, others_running=())


def intent(seed: int, facts: Facts) -> Intent:
    luck = Random(seed)
    since = luck.choice((None, None, EpochMs(NOW - luck.randrange(700_000))))
    bare = replace(intents()[Mode.UNPLANNED], dead_since=since, reserve=luck.choice((0, 10, 300_000)))
    return planned_intent(bare, facts, luck.choice((None, None, 0, 50)))


def running(facts: Facts, luck: Random) -> FailoverRun:
    """A run that has begun, up to some step before the point of no return."""
    return FailoverRun(
        mirror=MIRROR,
        plan="cafe",
        plan_json="",
        approval="0-0",
        approver="carol",
        runner="",
        status=RunStatus.RUNNING,
        marks=luck.choice(((), ("drain",), ("drain", "groups"))),
        started_at=facts.now,
        at=facts.now,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_no_hash_and_no_permission_changes_while_nobody_sees_the_source(seed: int) -> None:
    """Five approvals and ten of ten runs were refused in 501 s: the clock was the reason each time."""
    luck, facts = Random(seed), dead(seed)
    asked = intent(seed, facts)
    plan = make_plan(asked, facts, ROUTE)
    blocked = {each.name for each in plan.limitations if each.blocks}
    approved = ApprovedPlan.read(plan.canonical_plan)
    for _ in range(12):
        facts = asked_in_vain(at(facts, luck.choice((0, 1, 900, 9_000, 31_000, 600_000, DAY_MS))), luck)
        if luck.random() < 0.3 and facts.run is None:
            facts = replace(facts, run=running(facts, luck))
        if facts.run is not None and luck.random() < 0.5:
            facts = replace(facts, run=running(facts, luck))
        again = planned_intent(intents_of(asked), facts, asked.loss_tolerance)
        assert again == asked
        assert make_plan(again, facts, ROUTE).hash == plan.hash
        assert {each.name for each in news(approved, facts)} <= blocked, "only what blocked the plan itself"


def intents_of(asked: Intent) -> Intent:
    """What was asked for, before facts fill in the rest."""
    bare = intents()[asked.mode]
    return replace(bare, dead_since=asked.dead_since, reserve=asked.reserve)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_approval_ends_by_its_expiry_alone(seed: int) -> None:
    luck, facts = Random(seed), dead(seed)
    plan = make_plan(intent(seed, facts), facts, ROUTE)
    if any(each.blocks for each in plan.limitations):
        return
    approved = ApprovedPlan.read(plan.canonical_plan)
    approval = Approval(
        id="0-0",
        mirror=MIRROR,
        plan=plan.hash,
        plan_json=plan.canonical_plan,
        approver="carol",
        reason="",
        valid_for_ms=7 * DAY_MS,
        at=facts.now,
    )
    for _ in range(8):
        facts = asked_in_vain(at(facts, luck.randrange(2 * DAY_MS)), luck)
        found = {each.name for each in objections(approval, approved, facts, ROUTE, facts.now, None)}
        assert found == ({"APPROVAL_EXPIRED"} if facts.now >= approval.expires_at else set())


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
