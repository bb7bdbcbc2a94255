"""S3.13: how fast a mirror may copy: what people type, what a worker's share is, and when it may read again."""

from __future__ import annotations

import pytest

from tanist.domain.errors import Misconfigured
from tanist.domain.limits import (
    BURST_SECONDS,
    Budget,
    LimitKey,
    LimitShare,
    limit_keys,
    limit_line,
    limit_problems,
    rate,
    rate_text,
    shares,
    topic_limit,
)
from tanist.domain.names import MirrorName
from tanist.domain.states import DesiredState
from tests.builders import a_mirror, a_topic

M = MirrorName("m1")
MB = 1_000_000


@pytest.mark.parametrize(
    ("text", "size"),
    [("10MB/s", 10 * MB), ("1.5 MB/s", 1_500_000), ("512KiB/s", 524_288), ("2000B/s", 2_000), ("none", 0)],
)
def test_a_rate_has_a_unit(text: str, size: int) -> None:
    assert rate("--limit", text) == size


@pytest.mark.parametrize("text", ["0", "0MB/s", "0.0 kB/s"])
def test_a_rate_of_0_is_refused_with_the_way_on(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"is a rate of 0: to copy nothing, pause .*; .* give --limit none"):
        rate("--limit", text)


@pytest.mark.parametrize("text", ["10", "10MB", "10mb/s", "-1MB/s", "1e9B/s", "MB/s", "10MB/min", "", "999B/s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match=r"--limit"):
        rate("--limit", text)


def test_a_rule_that_is_none_is_named() -> None:
    found = [each.reason for each in limit_problems(["orders", "=1MB/s", "(=1MB/s", "ok=1MB/s", "x=0"])]
    assert len(found) == 4
    assert all("--topic-limit" in each or "regular expression" in each for each in found)
    assert found[3].endswith("give --topic-limit none")


def test_the_first_rule_that_matches_counts_and_none_takes_a_topic_out() -> None:
    spec = a_mirror(limit=5 * MB, topic_limits=("orders-big=none", "orders.*=1MB/s"))
    assert [topic_limit(spec, name) for name in ("orders-big", "orders", "other")] == [0, MB, 0]
    key = LimitKey(spec.mirror)
    assert limit_keys(spec, "orders") == (key, LimitKey(spec.mirror, "orders"))
    assert limit_keys(spec, "other") == (key,)
    assert limit_keys(a_mirror(), "orders") == ()
    assert limit_line(spec) == (
        f"mirror {spec.mirror}: at most 5MB/s; each topic of orders-big without a limit; "
        "each topic of orders.* at most 1MB/s"
    )
    assert limit_line(a_mirror()) == ""
    assert rate_text(1_500_000) == "1.5MB/s"


def test_workers_share_a_limit_by_the_partitions_that_they_own() -> None:
    """Together they read what one worker would: a paused topic has no share."""
    spec = a_mirror(limit=8 * MB, topic_limits=("b=1MB/s",))
    topics = [
        a_topic("a", partitions=6),
        a_topic("b", partitions=2),
        a_topic("c", partitions=9, desired=DesiredState.PAUSED),
    ]
    every, of_b = LimitKey(spec.mirror), LimitKey(spec.mirror, "b")
    first = shares(spec, topics, {"a": 3, "b": 1, "c": 9}, {every: 2})
    second = shares(spec, topics, {"a": 3, "b": 1}, {})
    assert first == {every: LimitShare(4 * MB, 2), of_b: LimitShare(MB / 2)}
    assert first[every].bytes_per_second + second[every].bytes_per_second == spec.limit
    assert shares(spec, topics, {"a": 6}, {}) == {every: LimitShare(6 * MB)}
    assert shares(a_mirror(), topics, {"a": 6}, {}) == {}


def test_over_ten_seconds_a_budget_is_kept_within_5_percent() -> None:
    """A fetch takes a while and is late: what was not read in a short time may be read later, and no more than that."""
    budget, now, read, seconds = Budget(LimitShare(MB)), 0.0, 0, 10.0
    assert budget.fetch_bytes == MB * BURST_SECONDS
    while now < seconds:
        if budget.free_at <= now:
            read += budget.fetch_bytes
            budget = budget.spent(budget.fetch_bytes, now)
        now += 0.07
    assert 0.95 * MB * seconds <= read <= 1.05 * MB * seconds


def test_a_batch_that_is_larger_than_the_share_is_waited_for() -> None:
    budget = Budget(LimitShare(1_000)).spent(10_000, 100.0)
    assert budget.free_at == pytest.approx(110 - BURST_SECONDS)


def test_a_limit_that_is_altered_counts_at_once() -> None:
    """What was read too much at 1 kB/s would have been waited for for hours."""
    budget = Budget(LimitShare(1_000)).spent(1_000_000, 100.0)
    altered = budget.shared(LimitShare(1_000_000), 100.0)
    assert altered.free_at == pytest.approx(101.0, abs=0.01)
    assert altered.shared(LimitShare(500_000), 200.0).free_at == altered.free_at, "nothing is left to wait for"
