"""A run reserves no less than its approver has seen, or its approval is void."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import Facts, PartitionFacts, SourceState
from tanist.domain.failover.limitations import make_plan, planned_intent
from tanist.domain.failover.objections import news
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.failover.reserve import NEAR_RESERVE, of_reserve, reserve, stored_gaps, unreserved_to
from tanist.domain.lag import KnownEnd
from tanist.domain.names import BrokerId, DestinationOffset, EpochMs, SourceOffset, TopicPartition
from tanist.domain.records import CopiedUpTo
from tests.unit.domain.facts_drawn import FOLLOWED, HEALTHY, MIRROR, NOW, PARTITIONS, intents, partition, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.failover.reserve import Reserve

A, B, C = PARTITIONS
SEEN = NOW - 4_000
"""When the source and its only worker died."""


def dead(at: TopicPartition, *, end: int, rate: float = 0.0, copied: int = 10) -> PartitionFacts:
    known = KnownEnd(SourceOffset(end), EpochMs(SEEN), rate, SourceOffset(0))
    return replace(partition(at, copied=copied), live=None, known=known, looked_at=EpochMs(SEEN))


def facts(*partitions: PartitionFacts, later_ms: int = 0) -> Facts:
    """As they are `later_ms` after the plan was made; nothing else has happened."""
    now = EpochMs(NOW + later_ms)
    return replace(silent(), now=now, partitions=partitions, followed=replace(FOLLOWED, at=now))


def approved(found: Facts, budget: int, dead_since: int | None = None) -> ApprovedPlan:
    """As the approver has seen it."""
    since = None if dead_since is None else EpochMs(dead_since)
    intent = replace(intents()[Mode.UNPLANNED], reserve=budget, dead_since=since)
    plan = make_plan(planned_intent(intent, found, 1_000), found, ("hold",))
    return replace(ApprovedPlan.read(plan.canonical_plan), reserve_to=ends(reserve(plan.intent, found)))


def ends(of: Reserve) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, n): end for topic, found in of.ends for n, end in enumerate(found) if end}


def made(plan: ApprovedPlan, found: Facts) -> Mapping[TopicPartition, tuple[int, bool]]:
    """What a run reserves: the end of each reserve, and whether it is complete."""
    return {e.partition: (int(e.end or 0), e.fits) for e in reserve(plan.intent, found, plan.reserve_to).partitions}


def names(plan: ApprovedPlan, found: Facts) -> dict[str, tuple[str, ...]]:
    return {each.name: each.about for each in news(plan, found)}


def test_an_approved_reserve_is_made_although_nobody_has_looked_at_the_source_for_longer() -> None:
    """The plan showed 258 offsets, the run came 45 s later and reserved none; the old source returned with 8 more."""
    before = [dead(at, end=10, rate=20.0) for at in PARTITIONS]
    plan = approved(facts(*before), 300_000)
    assert "OFFSETS_MAY_BE_REUSED" not in plan.limitations
    later = facts(*before, later_ms=45_000)
    assert not names(plan, later), "time alone voids no approval"
    assert made(plan, later) == dict.fromkeys(PARTITIONS, (10 + 20 * 50, True))
    assert plan.reserve_to == dict.fromkeys(PARTITIONS, 10 + 20 * 5)


def test_a_reserve_that_outgrows_its_budget_voids_the_approval() -> None:
    """It was granted what was left, and OFFSETS_MAY_BE_REUSED counted as accepted."""
    before = [dead(at, end=10, rate=20.0) for at in PARTITIONS]
    plan = approved(facts(*before), 1_000)
    assert not names(plan, facts(*before, later_ms=10_000))
    for later_ms in (20_000, 45_000):
        found = names(plan, facts(*before, later_ms=later_ms))
        assert set(found) == {"OFFSETS_MAY_BE_REUSED"}
        assert {str(A), str(B)} <= set(found["OFFSETS_MAY_BE_REUSED"])


def test_an_attested_time_keeps_a_reserve_and_its_approval_as_they_are() -> None:
    before = [dead(at, end=10, rate=20.0) for at in PARTITIONS]
    plan = approved(facts(*before), 300, NOW)
    later = facts(*before, later_ms=3_600_000)
    assert not names(plan, later)
    assert ends(reserve(plan.intent, later, plan.reserve_to)) == plan.reserve_to


def test_an_end_that_is_not_known_any_more_voids_the_approval() -> None:
    before = [dead(at, end=60) for at in PARTITIONS]
    plan = approved(facts(*before), 300_000)
    for strange in ({"foreign": None}, {"longer": None}, {"known": None}):
        lost = facts(replace(before[0], **strange), *before[1:])  # type: ignore[arg-type]
        assert names(plan, lost)["OFFSETS_MAY_BE_REUSED"] == (str(A),)


def test_an_old_look_is_named_in_a_new_plan_and_its_estimate_is_reserved_all_the_same() -> None:
    """No worker has run for 44 s: the source may have grown faster since, but not to reserve is worse."""
    before = [dead(at, end=10, rate=20.0) for at in PARTITIONS]
    old = facts(*before, later_ms=40_000)
    plan = approved(old, 300_000)
    (found,) = of_reserve(plan.intent, old)
    assert set(found.about) == set(map(str, PARTITIONS))
    assert f"{A} (900 reserved, but nobody has observed the source for 30 s)" in found.detail
    assert plan.reserve_to == dict.fromkeys(PARTITIONS, 910)
    assert not names(plan, facts(*before, later_ms=400_000)), "it was accepted by name"


def test_an_old_look_takes_nothing_from_a_recent_one() -> None:
    """A paused partition, which nobody asks about, is smaller; the reserves of a plan stay what they were."""
    paused = replace(dead(A, end=30), looked_at=None, known=KnownEnd(SourceOffset(30), EpochMs(NOW - 60_000)))
    intent = replace(intents()[Mode.UNPLANNED], reserve=55)
    found = {e.partition: (e.granted, e.covered) for e in reserve(intent, facts(paused, dead(B, end=60))).partitions}
    assert found == {A: (5, False), B: (50, True)}


def test_a_part_of_a_reserve_that_was_approved_by_name_does_not_shrink() -> None:
    """Smaller ones came first and had grown: what the approver saw reserved for A was given to them."""
    before = [dead(A, end=110, copied=10), dead(B, end=10, rate=8.0, copied=10), dead(C, end=10)]
    plan = approved(facts(*before), 120)
    assert plan.reserve_to == {A: 90, B: 50}
    later = facts(*before, later_ms=5_000)
    assert made(plan, later) == {A: (90, False), B: (50, False), C: (10, True)}
    assert names(plan, later) == {"OFFSETS_MAY_BE_REUSED": (str(A), str(B))}, "B was not accepted"


def test_what_was_approved_counts_from_the_copy_as_it_is_now() -> None:
    """A living worker has copied on since: the end of the reserve is what stays, not its length."""
    plan = approved(facts(dead(A, end=60)), 300_000)
    assert plan.reserve_to == {A: 60}
    copied = replace(dead(A, end=60, copied=40), known=KnownEnd(SourceOffset(45), EpochMs(NOW), 0.0))
    assert made(plan, facts(copied)) == {A: (60, True)}
    assert made(plan, facts(dead(A, end=90, copied=80))) == {A: (90, True)}


def test_a_near_fence_that_cannot_be_told_any_more_keeps_its_approved_reserve() -> None:
    seen = replace(HEALTHY, source=replace(HEALTHY.source, authorizer=False))
    intent = intents()[Mode.PLANNED]
    before = ends(reserve(intent, seen))
    assert set(before.values()) == {10 + NEAR_RESERVE}
    untold = replace(seen, source=replace(seen.source, authorizer=None))
    assert ends(reserve(intent, untold, before)) == before


@pytest.mark.parametrize("seed", range(100))
def test_no_run_that_is_permitted_reserves_less_than_was_approved(seed: int) -> None:
    """Over drawn rates, ends, leaders, budgets and waiting times."""
    luck = Random(seed)
    before = [
        replace(
            dead(at, end=luck.randrange(10, 90), rate=luck.choice((0.0, 1.0, 9.0))), leader=BrokerId(luck.randrange(2))
        )
        for at in PARTITIONS
    ]
    budget = luck.randrange(1, 400)
    plan = approved(facts(*before), budget)
    shown = {each.partition: each for each in reserve(plan.intent, facts(*before)).partitions}
    later = facts(*before, later_ms=luck.choice((0, 5_000, 25_000, 27_000, 90_000)))
    found = {each.partition: each for each in reserve(plan.intent, later, plan.reserve_to).partitions}
    for leader in range(2):
        assert sum(found[e.partition].granted for e in before if e.leader == leader) <= budget
    for at in PARTITIONS:
        assert found[at].granted >= shown[at].granted
        if not news(plan, later) and shown[at].covered:
            assert found[at].fits


def test_what_a_run_leaves_without_reserve_is_kept_with_the_number_of_its_offsets() -> None:
    """All partitions have moved to one leader, which cannot take both approved reserves within its budget."""
    ends_seen = {A: 90, B: 110, C: 10}
    before = [replace(dead(at, end=end), leader=BrokerId(end)) for at, end in ends_seen.items()]
    plan = approved(facts(*before), 80)
    moved = facts(*(replace(each, leader=BrokerId(1)) for each in before))
    assert names(plan, moved) == {}, "B was accepted, A is complete"
    found = reserve(plan.intent, moved, plan.reserve_to).partitions
    missing = {each.partition: unreserved_to(each, plan.reserve_to) for each in found}
    assert missing == {A: 0, B: 110, C: 0}
    stored = CopiedUpTo(
        mirror=MIRROR, topic="orders", copied=(10, 10), at=NOW, reserve_to=(90, 0), unreserved_to=(0, 110)
    )
    why = "the old source may have used offsets up to 110; no offset is reserved"
    assert stored_gaps(stored) == {str(B): why}


def test_an_unknown_end_is_stored_as_unknown_and_an_approved_end_counts() -> None:
    unknown = replace(dead(A, end=60), foreign=None)
    smaller = dead(B, end=10)
    intent = replace(intents()[Mode.UNPLANNED], reserve=30)
    found = reserve(intent, facts(unknown, smaller), {A: 30, B: 70}).partitions
    assert [(each.granted, unreserved_to(each, {A: 30, B: 70})) for each in found] == [(20, -1), (10, 70)]
    stored = CopiedUpTo(
        mirror=MIRROR, topic="orders", copied=(10, 10), at=NOW, reserve_to=(30, 20), unreserved_to=(-1, 70)
    )
    assert stored_gaps(stored) == {
        str(A): "nobody knows how far the old source has come; the reserve ends at offset 30",
        str(B): "the old source may have used offsets up to 70; the reserve ends at offset 20",
    }
    assert stored_gaps(replace(stored, unreserved_to=())) == {}, "an earlier version does not say"


def test_a_source_that_answers_is_reserved_up_to_what_was_approved() -> None:
    """Its true end is smaller than the estimate: more than enough is reserved, and within what was approved."""
    plan = approved(facts(dead(A, end=60, rate=10.0)), 300_000)
    alive = replace(facts(partition(A, source_end=70)), source=replace(HEALTHY.source, state=SourceState.ALIVE))
    (found,) = reserve(plan.intent, alive, plan.reserve_to).partitions
    assert (found.wanted, found.end, found.fits) == (60, DestinationOffset(110), True)
