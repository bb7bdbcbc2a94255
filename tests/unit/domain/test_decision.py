"""A decision about rescued records: the clock alone changes neither its hash nor what is done."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from tanist.domain.failback.decision import (
    MINUTE_MS,
    NOTHING_EXPIRED,
    DecidedTail,
    DecisionPlan,
    ExpiringCounts,
    TailAction,
    TailClass,
    classify,
    expiry,
    time_of,
    times_of,
)
from tanist.domain.names import EpochMs, MirrorName

DAY_MS = 86_400_000
START = 1_700_000_000_123
PLAN = DecisionPlan(
    mirror=MirrorName("dr"),
    mirror_id="i",
    source_cluster_id="E",
    destination_cluster_id="W",
    tails=(DecidedTail("orders", 0, 1, 10, 20, 10, "digest"),),
    actions=dict.fromkeys(TailClass, TailAction.REPLAY) | {TailClass.EXPIRED: TailAction.DROP},
    expired_at=NOTHING_EXPIRED,
)


def plan_at(time: EpochMs | None) -> DecisionPlan:
    return DecisionPlan(
        mirror=PLAN.mirror,
        mirror_id=PLAN.mirror_id,
        source_cluster_id=PLAN.source_cluster_id,
        destination_cluster_id=PLAN.destination_cluster_id,
        tails=PLAN.tails,
        actions=PLAN.actions,
        expired_at=time,
    )


def counted(times: list[int], retention_ms: int | None) -> ExpiringCounts:
    return ExpiringCounts(Counter((TailClass.SAFE, expiry(time, retention_ms)) for time in times))


def test_a_plan_is_read_back_as_it_was_hashed() -> None:
    for each in (PLAN, plan_at(EpochMs(START)), plan_at(None)):
        assert DecisionPlan.read(each.canonical_plan) == each


def test_a_plan_of_the_version_before_is_readable_and_names_no_time() -> None:
    words = json.loads(PLAN.canonical_plan)
    del words["decision"]["expired_at"]
    before = DecisionPlan.read(json.dumps(words))
    assert before.expired_at is None
    assert "expired_at" not in before.canonical_plan


def test_a_record_expires_in_the_minute_that_is_counted_for_it() -> None:
    for time, retention in ((START, DAY_MS), (START, 0), (-1, 0), (START, None)):
        minute = expiry(time, retention)
        if minute is None:
            assert classify(b"k", time, (), retention, EpochMs(2**62)) is TailClass.SAFE
            continue
        assert minute % MINUTE_MS == 0
        assert classify(b"k", time, (), retention, minute) is TailClass.EXPIRED
        assert minute == 0 or classify(b"k", time, (), retention, EpochMs(minute - MINUTE_MS)) is TailClass.SAFE


def test_the_same_records_make_the_same_plan_until_one_of_them_expires() -> None:
    times = times_of([counted([START, START + 10 * MINUTE_MS], DAY_MS)])
    first, second = expiry(START, DAY_MS), expiry(START + 10 * MINUTE_MS, DAY_MS)
    assert times == (second, first, NOTHING_EXPIRED)
    assert first is not None
    made = {now: plan_at(time_of(times, EpochMs(now))).hash for now in range(first - 5 * MINUTE_MS, first, 7_000)}
    assert set(made.values()) == {PLAN.hash}
    assert {plan_at(time_of(times, EpochMs(now))).hash for now in range(first, first + 9 * MINUTE_MS, 7_000)} == {
        plan_at(first).hash
    }


@pytest.mark.parametrize("seed", range(30))
def test_what_was_shown_can_be_approved_and_is_carried_out_however_much_time_passes(seed: int) -> None:
    """The clock is advanced between decide, approve and replay, and goes back between hosts."""
    drawn = random.Random(seed)
    retention = drawn.choice([0, 1_000, DAY_MS, 7 * DAY_MS, None])
    records = [START + drawn.randrange(-8 * DAY_MS, 1_000) for _ in range(drawn.randrange(1, 200))]
    found = counted(records, retention)
    now = EpochMs(START + drawn.choice([0, 5_000, 3_600_000, DAY_MS]))
    times = times_of([found])
    shown = plan_at(time_of(times, now))
    assert shown.expired_at is not None
    counts = found.at(shown.expired_at)
    later = EpochMs(now + drawn.choice([-5_000, 0, 1, 20_000, 60_000, 7 * DAY_MS]))
    approved = plan_at(time_of(times, later)).as_shown(shown.hash, times)
    assert approved == shown
    words = DecisionPlan.read(approved.canonical_plan)
    assert words.expired_at is not None
    assert Counter(classify(b"k", each, (), retention, words.expired_at) for each in records) == counts
    late = [each for each in records if retention is not None and now - retention - MINUTE_MS > each]
    assert counts[TailClass.EXPIRED] >= len(late), "what expired a minute ago or before counts as expired"


def test_another_decision_is_not_taken_for_the_one_that_was_shown() -> None:
    times = times_of([counted([START], DAY_MS)])
    other = plan_at(NOTHING_EXPIRED)
    changed = DecisionPlan.read(other.canonical_plan.replace("digest", "another"))
    assert other.as_shown(changed.hash, times) is None
