"""How many offsets are reserved, and what is said where it is not known, or too many."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import Facts, LiveEnd, PartitionFacts, TransactionalProducers
from tanist.domain.failover.plan import ApprovedPlan, Intent, Plan, TopicIntent
from tanist.domain.failover.reserve import (
    ALL,
    COMPLETE,
    DEFAULT_RESERVE,
    MARGIN_MS,
    MARKERS_PER_SECOND,
    NEAR_RESERVE,
    UNKNOWN,
    UNSEEN_RESERVE,
    at_most,
    budget_of,
    of_reserve,
    reserve,
    reserve_words,
    time_of,
    unreserved_to,
)
from tanist.domain.lag import KnownEnd
from tanist.domain.names import BrokerId, EpochMs, MirrorPartition, SourceOffset
from tests.unit.domain.facts_drawn import HEALTHY, NOW, PARTITIONS, intents, partition

A, B, C = PARTITIONS


def dead(at: object = A, *, end: int = 10, age_ms: int = 0, rate: float = 0.0, copied: int = 10) -> PartitionFacts:
    """Of a source that does not answer; it was last seen at `end`."""
    known = KnownEnd(SourceOffset(end), EpochMs(NOW - age_ms), rate)
    return replace(partition(A, copied=copied), partition=at, live=None, known=known)  # type: ignore[arg-type]


def facts(*partitions: PartitionFacts) -> Facts:
    return replace(HEALTHY, partitions=partitions)


def intent(budget: int = DEFAULT_RESERVE, dead_since: int | None = None) -> Intent:
    since = None if dead_since is None else EpochMs(dead_since)
    return replace(intents()[Mode.UNPLANNED], reserve=budget, dead_since=since)


def test_the_source_may_have_come_as_far_as_its_rate_takes_it_until_now() -> None:
    each = dead(end=100, age_ms=20_000, rate=10.0)
    assert at_most(each, None, NOW) == 100 + 10 * 21
    assert at_most(dead(end=100, age_ms=20_000), None, NOW) == 100, "an idle one stays where it is"


def test_a_true_end_above_the_high_watermark_is_where_the_estimate_begins() -> None:
    """A follower had stalled: a producer with acks=1 was told offsets that were not committed."""
    each = dead(end=100, age_ms=20_000, rate=10.0)
    assert each.known is not None
    stalled = replace(each, known=replace(each.known, log_end=SourceOffset(400)))
    assert at_most(stalled, None, NOW) == 400 + 10 * 26, "it may be five seconds older than the high watermark"
    assert at_most(stalled, EpochMs(NOW - 20_000), NOW) == 400 + 10 * 6
    passed = replace(each, known=replace(each.known, log_end=SourceOffset(90)))
    assert at_most(passed, None, NOW) == at_most(each, None, NOW)


def test_an_attested_time_bounds_what_the_source_may_have_written() -> None:
    each = dead(end=100, age_ms=3_600_000, rate=10.0)
    assert at_most(each, None, NOW) == 100 + 10 * 3_601, "an old look makes it larger, not unknown"
    assert at_most(each, EpochMs(NOW - 3_590_000), NOW) == 100 + 10 * 11
    assert at_most(each, EpochMs(NOW - 3_600_000), NOW) == 100 + 10 * MARGIN_MS // 1000


def test_a_source_that_answers_tells_its_end() -> None:
    each = partition(A, source_end=50)
    assert at_most(each, None, NOW) == 50
    ahead = replace(each, live=LiveEnd(SourceOffset(50), SourceOffset(40), SourceOffset(60)))
    assert at_most(ahead, None, NOW) == 60, "its true end, not what is committed"


@pytest.mark.parametrize(
    "strange",
    [{"foreign": True}, {"foreign": None}, {"longer": True}, {"longer": None}, {"known": None, "live": None}],
    ids=str,
)
def test_of_a_copy_that_is_none_nothing_is_estimated(strange: dict[str, Any]) -> None:
    each = replace(dead(), **strange)
    assert at_most(each, EpochMs(NOW), NOW) is None
    (found,) = of_reserve(intent(), facts(each))
    assert (found.name, found.about, found.blocks) == ("OFFSETS_MAY_BE_REUSED", (str(A),), False)


def test_small_reserves_come_first_and_leaders_do_not_share_a_budget() -> None:
    one, two = BrokerId(1), BrokerId(2)
    found = reserve(
        intent(100),
        facts(
            replace(dead(A, end=90), leader=one),
            replace(dead(B, end=60), leader=one),
            replace(dead(C, end=110), leader=two),
        ),
    )
    assert {e.partition: (e.granted, e.wanted, e.fits, e.end) for e in found.partitions} == {
        A: (50, 80, False, 60),
        B: (50, 50, True, 60),
        C: (100, 100, True, 110),
    }
    assert found.offsets == 200
    assert found.seconds == 100 / MARKERS_PER_SECOND


def test_what_an_estimate_says_is_no_limitation() -> None:
    """OFFSETS_MAY_BE_REUSED came with the clock, and voided the approval of a source that was dead."""
    assert not list(of_reserve(intent(20), facts(dead(A, end=60))))
    assert not list(of_reserve(intent(20), facts(dead(A, end=60, age_ms=3_600_000, rate=500.0))))


def test_a_reserve_says_how_long_after_the_last_look_it_lasts() -> None:
    (each,) = reserve(intent(100), facts(dead(A, end=60, age_ms=60_000, rate=10.0))).partitions
    assert (each.wanted, each.granted, each.covers_ms) == (50 + 10 * 61, 100, 5_000)
    (idle,) = reserve(intent(100), facts(dead(A, end=60))).partitions
    assert idle.covers_ms == ALL
    (unknown,) = reserve(intent(100), facts(replace(dead(A), known=None))).partitions
    assert unknown.covers_ms == UNKNOWN


def test_words_about_a_reserve_say_how_long_the_budget_lasts() -> None:
    """They said how far the estimate had come, which grew with every look at the same plan."""
    for age_ms in (1_000, 5_000, 3_600_000):
        found = reserve(intent(100), facts(dead(A, end=60, age_ms=age_ms, rate=10.0)))
        assert 5_000 <= found.lasts_ms < 5_100, "whole offsets only"
        assert "the budget lasts for the first 5 s after its last answer" in reserve_words(found)
    assert "lasts for an hour or more" in reserve_words(reserve(intent(100), facts(dead(A, end=60))))


def test_all_partitions_of_a_leader_are_covered_for_the_same_time() -> None:
    """Small reserves came first: once the estimate had outgrown the budget, the busiest partition had no reserve."""
    some = (dead(A, end=30, age_ms=60_000, rate=10.0), dead(B, end=20, age_ms=60_000, rate=40.0))
    found = {each.partition: each for each in reserve(intent(530), facts(*some)).partitions}
    assert {at: each.granted for at, each in found.items()} == {A: 20 + 100, B: 10 + 400}
    assert {each.covers_ms for each in found.values()} == {10_000}
    short = {each.partition: each.granted for each in reserve(intent(25), facts(*some)).partitions}
    assert short == {A: 15, B: 10}, "what the source was seen to use comes first"


def test_an_idle_partition_that_got_records_before_its_source_died_has_a_reserve() -> None:
    """Its rate was 0 at the last look, so nothing was reserved; 88 records later its offsets named two records."""
    found = {each.partition: each for each in reserve(intent(), facts(dead(A), dead(B, end=60, rate=10.0))).partitions}
    assert {at: each.granted for at, each in found.items()} == {A: UNSEEN_RESERVE, B: UNSEEN_RESERVE}
    seen = intent(dead_since=NOW - 1)
    assert [each.granted for each in reserve(seen, facts(dead(A))).partitions] == [0], "its end was seen"
    assert [each.granted for each in reserve(intent(), facts(replace(dead(A), foreign=None))).partitions] == [0]
    short = reserve(intent(250), facts(dead(A, end=70), dead(B, end=110))).partitions
    assert [each.granted for each in short] == [150, 100], "it takes nothing from what others want"


def test_a_reserve_is_complete_only_where_the_end_of_the_source_was_seen() -> None:
    """Complete was said of a partition whose fetcher had been stopped 235,048 records before the source died."""
    late = dead(A, end=60, age_ms=60_000)
    seen_after, seen_before = intent(100, NOW - 60_001), intent(100, NOW - 60_000)
    (found,) = reserve(seen_after, facts(late)).partitions
    assert (found.complete, found.covers_ms) == (True, COMPLETE)
    (found,) = reserve(seen_before, facts(late)).partitions
    assert not found.complete
    (found,) = reserve(intent(100), facts(late)).partitions
    assert not found.complete
    (found,) = reserve(intent(100), facts(replace(late, fenced_since=EpochMs(NOW - 60_000)))).partitions
    assert found.complete
    (found,) = reserve(intent(20), facts(replace(late, fenced_since=EpochMs(NOW - 60_000)))).partitions
    assert not found.complete, "it does not fit"


def test_a_planned_failover_reserves_offsets_behind_a_near_fence_only() -> None:
    """A transactional producer that was refused again and again had used 64 more offsets when its source returned."""
    planned, seen = intents()[Mode.PLANNED], facts(partition(A), partition(B))
    assert reserve(replace(planned), replace(seen, source=replace(seen.source, authorizer=True))).partitions == ()
    near = replace(seen, source=replace(seen.source, authorizer=False))
    assert {each.granted for each in reserve(planned, near).partitions} == {NEAR_RESERVE}
    assert not list(of_reserve(planned, near))


@pytest.mark.parametrize(
    ("producers", "offsets"),
    [
        (TransactionalProducers.NONE, 0),
        (TransactionalProducers.ELSEWHERE, UNSEEN_RESERVE),
        (TransactionalProducers.HERE, NEAR_RESERVE),
        (TransactionalProducers.UNKNOWN, NEAR_RESERVE),
    ],
)
def test_seal_took_33_s_for_290_idle_partitions(producers: TransactionalProducers, offsets: int) -> None:
    """A thousand markers for each of them, although no producer was transactional. Unknown is not none."""
    seen = facts(*(replace(partition(at), transactional=producers) for at in (A, B)))
    near = replace(seen, source=replace(seen.source, authorizer=False), markers_per_second=9_000)
    found = reserve(intents()[Mode.PLANNED], near)
    assert [each.granted for each in found.partitions] == [offsets] * 2
    assert [unreserved_to(each) for each in found.partitions] == [0] * 2
    assert found.seconds == 2 * offsets / 9_000, "what this cluster has taken, not 30,000 a second"
    assert not list(of_reserve(intents()[Mode.PLANNED], near))


def test_partitions_of_a_leader_beyond_its_planned_reserve_are_named() -> None:
    most = DEFAULT_RESERVE // NEAR_RESERVE
    parts = [MirrorPartition("orders", n) for n in range(most + 2)]
    alone = MirrorPartition("payments", 0)
    one, two = BrokerId(1), BrokerId(2)
    seen = facts(*(replace(partition(at), leader=one) for at in parts), replace(partition(alone), leader=two))
    near = replace(seen, source=replace(seen.source, authorizer=False))
    topics = (TopicIntent(topic="orders", partitions=len(parts)), TopicIntent(topic="payments", partitions=1))
    planned = replace(intents()[Mode.PLANNED], topics=topics)
    (found,) = of_reserve(planned, near)
    assert (found.name, found.blocks) == ("OFFSETS_MAY_BE_REUSED", False)
    assert set(found.about) == {str(at) for at in parts[most:]}
    assert "stop these producers first" in found.detail
    assert "--source-dead-since" not in found.detail


def test_a_source_that_was_seen_after_its_attested_end_blocks() -> None:
    (found,) = of_reserve(intent(dead_since=NOW - 60_000), facts(dead(age_ms=1_000)))
    assert (found.name, found.blocks) == ("SOURCE_SEEN_LATER", True)
    assert "--source-dead-since 1970-01-01T00:16:39.000Z" in found.detail
    assert not list(of_reserve(intent(dead_since=NOW), facts(dead(age_ms=1_000))))


@pytest.mark.parametrize("seed", range(50))
def test_no_leader_is_given_more_than_its_budget_and_what_fits_is_whole(seed: int) -> None:
    rng = Random(seed)
    some = [replace(dead(at, end=rng.randrange(10, 90)), leader=BrokerId(rng.randrange(2))) for at in PARTITIONS]
    budget = rng.randrange(150)
    found = {each.partition: each for each in reserve(intent(budget), facts(*some)).partitions}
    for leader in range(2):
        own = [found[each.partition] for each in some if each.leader == leader]
        assert sum(each.granted for each in own) <= budget
        if any(not each.fits for each in own):
            assert sum(each.granted for each in own) == budget, "nothing is left while somebody wants more"
    for each in some:
        got = found[each.partition]
        assert got.fits == (got.granted >= each.known.high_watermark - 10)  # type: ignore[union-attr]


def test_the_budget_and_the_attested_time_are_bound_by_the_hash() -> None:
    hashes = {Plan(each, (), ()).hash for each in (intent(), intent(7), intent(dead_since=5))}
    assert len(hashes) == 3
    for each in (intent(7, 5), intents()[Mode.PLANNED]):
        assert ApprovedPlan.read(Plan(each, (), ()).canonical_plan).intent == each


@pytest.mark.parametrize(
    ("text", "offsets"),
    [("none", 0), ("10s", 300_000), ("500ms", 15_000), ("1m", 1_800_000), ("1.5s", 45_000), ("12345", 12_345)],
)
def test_a_budget_is_a_time_or_a_number(text: str, offsets: int) -> None:
    assert budget_of(text) == offsets


@pytest.mark.parametrize("text", ["", "all", "-1", "0", "10h", "1e9", "999999999s", "10 s", "NONE"])
def test_a_budget_that_is_none_of_them_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a reserve"):
        budget_of(text)


def test_a_time_needs_its_zone() -> None:
    assert time_of("2026-11-23T02:14:00Z") == time_of("2026-11-23T03:14:00+01:00") == 1_795_400_040_000
    for text in ("2026-11-23T02:14:00", "yesterday", "", "1795400040000"):
        with pytest.raises(ValueError, match="with its zone"):
            time_of(text)
