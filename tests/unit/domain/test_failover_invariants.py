"""What no step of a failover may leave behind: each invariant holds, is broken, and is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import Facts, ObservedTopic, PartitionFacts, SourceFacts, SourceState
from tanist.domain.failover.invariants import check_invariants
from tanist.domain.failover.plan import Intent, Plan, TopicIntent
from tanist.domain.fences import FencedTopic, FenceStatus
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import FailoverRun, RunStatus
from tests.builders import a_run

if TYPE_CHECKING:
    from typing import Any

BEFORE: Final = 3
"""The generation of the topic when its failover was approved."""
INTENT: Final = Intent(
    mirror=MirrorName("dr"),
    mode=Mode.PLANNED,
    source_cluster_id="east",
    destination_cluster_id="west",
    topics=(TopicIntent(topic="orders", partitions=2, promotion_epoch=BEFORE),),
)
RUN: Final = a_run(
    plan="plan", plan_json=Plan(INTENT, ("hold",), ()).canonical_plan, approval="0-1", approver="ann", runner="ann@host"
)
PROVED: Final = FencedTopic(topic="orders", status=FenceStatus.PROVED, wanted_by="plan")
TAKEN_OVER: Final = ObservedTopic(
    topic="orders", removed=True, promotion_epoch=BEFORE + 1, source_fence=PROVED, fence_stands=True, writable=True
)


def facts(topic: ObservedTopic = TAKEN_OVER, *, sealed: bool | None = True, run: FailoverRun | None = RUN) -> Facts:
    """The second partition is behind the barrier as `sealed` says."""
    first = PartitionFacts(partition=MirrorPartition("orders", 0), producer_fenced=True)
    second = PartitionFacts(partition=MirrorPartition("orders", 1), producer_fenced=sealed)
    source = SourceFacts(state=SourceState.ALIVE)
    return Facts(now=EpochMs(0), source=source, partitions=(first, second), topics=(topic,), run=run)


def names(found: Facts) -> list[str]:
    return [each.name for each in check_invariants(found)]


def test_a_topic_that_took_over_breaks_nothing() -> None:
    assert names(facts()) == []


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"promotion_epoch": BEFORE}, ["PROMOTION_NOT_COUNTED"]),
        ({"promotion_epoch": 0}, ["PROMOTION_NOT_COUNTED"]),
        ({"fence_stands": False}, ["FENCE_GONE"]),
        ({"fence_stands": None}, []),
        ({"source_fence": None}, ["TWO_WRITABLE_SIDES"]),
        ({"source_fence": replace(PROVED, status=FenceStatus.LIFTED)}, ["TWO_WRITABLE_SIDES"]),
        ({"source_fence": replace(PROVED, status=FenceStatus.PENDING), "fence_stands": None}, []),
        ({"source_fence": replace(PROVED, status=FenceStatus.PENDING), "fence_stands": False}, []),
    ],
)
def test_each_invariant_of_a_topic(change: dict[str, Any], broken: list[str]) -> None:
    assert names(facts(replace(TAKEN_OVER, **change))) == broken


@pytest.mark.parametrize(("sealed", "broken"), [(False, ["WRITABLE_BEFORE_BARRIER"]), (None, []), (True, [])])
def test_where_producers_may_write_the_old_writers_are_behind_the_barrier(
    sealed: bool | None, broken: list[str]
) -> None:
    """What is not told is no breach: that stops the steps themselves."""
    assert names(facts(sealed=sealed)) == broken


@pytest.mark.parametrize("writable", [True, False, None])
def test_a_copy_may_be_writable_and_open_at_the_source(writable: bool | None) -> None:
    """Without an authorizer nothing of ours keeps anybody off a copy; it has not taken over."""
    copy = replace(
        TAKEN_OVER, removed=False, promotion_epoch=BEFORE, source_fence=None, fence_stands=None, writable=writable
    )
    assert names(facts(copy, sealed=False)) == []


def test_a_mirror_has_one_unfinished_run() -> None:
    other = replace(RUN, plan="other")
    (found,) = check_invariants(replace(facts(), others_running=(other,)))
    assert (found.name, found.topic) == ("TWO_RUNS", "")
    assert "plan other" in str(found)
    over = replace(RUN, status=RunStatus.DONE)
    assert names(replace(facts(run=over), others_running=(other,))) == []


def test_once_the_run_is_over_its_fence_may_be_lifted() -> None:
    """`tanist fence lift --promoted`: both sides may be written to then."""
    lifted = replace(TAKEN_OVER, source_fence=replace(PROVED, status=FenceStatus.LIFTED), fence_stands=False)
    assert names(facts(lifted, run=replace(RUN, status=RunStatus.DONE))) == []


def test_a_fence_that_is_gone_names_the_step_that_mends_it() -> None:
    (found,) = check_invariants(facts(replace(TAKEN_OVER, fence_stands=False)))
    assert (found.mended_by, found.topic) == ("fence", "orders")
