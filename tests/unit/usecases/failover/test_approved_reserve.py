"""The reserve of a run is best effort: its budget is approved, its size is decided at the point of no return."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode, Verdict
from tanist.domain.failover.facts import TransactionalProducers
from tanist.domain.failover.forecast import silence_words
from tanist.domain.failover.reserve import COMPLETE, NEAR_RESERVE, NEAR_SECONDS
from tanist.domain.failover.stored_reserves import reserves_check
from tanist.domain.names import EpochMs, iso_time
from tanist.domain.records import RunStatus
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import abort, planning
from tanist.usecases.failover.items import outcome_item, plan_item
from tanist.usecases.failover.planning import FailoverRequest
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import PARTITIONS, RATE, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import lose_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.approval.entries import Approval
    from tanist.domain.checks import Check

NAMES = set(map(str, PARTITIONS))


def reserves(world: FailoverWorld) -> dict[str, int]:
    """Where the reserve of each partition ends, by the lineage."""
    found = {each.topic: each for each in world.view().lineage(DR)}
    return {str(at): found[at.topic].reserve_ends[at.partition] for at in PARTITIONS}


def approved(world: FailoverWorld, budget: int, dead_since: EpochMs | None = None) -> Approval:
    request = FailoverRequest(mode=Mode.UNPLANNED, reserve=budget, dead_since=dead_since)
    made = planning.plan(request, world.clusters(), world.command())
    return planning.approve(
        made.plan.hash, request, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 3600.0)
    )


def check(world: FailoverWorld) -> Check:
    view = world.view()
    return reserves_check((each for topic in TOPICS if (each := view.copied_up_to(DR, topic)) is not None), "west")


def killed_at(cut: str) -> Callable[[str], None]:
    def checkpoint(point: str) -> None:
        if point == cut:
            raise Killed

    return checkpoint


@pytest.mark.parametrize("cut", [None, "before:seal", "seal:no-return", "seal:reserving"])
def test_an_approved_reserve_was_not_made_once_nobody_had_looked_for_thirty_seconds(cut: str | None) -> None:
    """Worker and source had died; the plan showed a reserve, the run came 45 s later and reserved nothing."""
    world = FailoverWorld()
    lose_source(world)
    shown = plan_item(world.plan(Mode.UNPLANNED))["reserve"]
    assert (shown["may_be_reused"], shown["complete"]) == ([], [])
    assert set(shown["by_partition"]) == NAMES
    approval = world.approve(Mode.UNPLANNED)
    assert approval.reserve_to == ()
    ends = {str(at): world.west.ends[at][2] for at in PARTITIONS}
    world.clock.jump(450)
    if cut is not None:
        with pytest.raises(Killed):
            world.run(approval.plan, killed_at(cut))
    outcome = world.run(approval.plan)
    assert outcome.record.status is RunStatus.DONE
    found = reserves(world)
    assert all(found[at] >= ends[at] + 450 * RATE > ends[at] + shown["by_partition"][at] for at in NAMES), (
        "it has grown"
    )
    item = outcome_item(outcome, "")
    assert item["may_be_reused"] == {}
    assert set(item["reserve_estimated"]) == NAMES, "nobody saw where the source ended"
    assert check(world).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("seconds", [10, 45, 600])
def test_a_reserve_that_falls_short_stops_no_run_and_says_up_to_where(seconds: int) -> None:
    """The estimate had outgrown the budget while somebody read: OFFSETS_MAY_BE_REUSED voided the approval."""
    world = FailoverWorld()
    lose_source(world)
    approval = approved(world, 30)
    world.clock.jump(seconds)
    outcome = world.run(approval.plan)
    assert outcome.record.status is RunStatus.DONE
    named = outcome_item(outcome, "")["may_be_reused"]
    assert named
    assert set(named) <= NAMES
    for why in named.values():
        assert re.search(
            r"may have used offsets up to \d+; .*; if it has used more, the topic returns by "
            r"`tanist mirrors reverse dr --destination west --recreate \w+`",
            why,
        ), why
    assert outcome.evidence.found("end")["may_be_reused"] == named
    assert all(at in check(world).reason for at in named)


def test_a_reserve_that_outgrows_its_budget_within_the_run_does_not_stop_it() -> None:
    world = FailoverWorld()
    lose_source(world)
    needed = plan_item(world.plan(Mode.UNPLANNED))["reserve"]["offsets"]
    approval = approved(world, needed + 1_000)

    def late(point: str) -> None:
        if point == "before:seal":
            world.clock.jump(1_200)

    outcome = world.run(approval.plan, late, seconds=3_600)
    assert outcome.record.status is RunStatus.DONE
    assert outcome_item(outcome, "")["may_be_reused"]


@pytest.mark.parametrize("cut", [None, "seal:no-return", "after:seal", "before:movers"])
def test_evidence_and_output_name_what_is_not_reserved(cut: str | None) -> None:
    """What it came to, only the step before the point of no return knows."""
    world = FailoverWorld()
    lose_source(world)
    approval = approved(world, 20)
    if cut is not None:
        with pytest.raises(Killed):
            world.run(approval.plan, killed_at(cut))
    outcome = world.run(approval.plan)
    assert outcome.record.status is RunStatus.DONE
    named = outcome_item(outcome, "")["may_be_reused"]
    assert {str(each) for each in PARTITIONS[1:]} <= set(named), "the budget covers at most one"
    assert all("the old source may have used offsets up to" in why for why in named.values())
    assert outcome.evidence.found("end")["may_be_reused"] == named


def test_with_an_attested_time_a_reserve_is_complete_where_the_source_was_seen_then() -> None:
    world = FailoverWorld()
    seen = world.clock.now()
    lose_source(world)
    world.clock.jump(45)
    outcome = world.run(approved(world, 1_000, dead_since=EpochMs(seen - 2_000)).plan)
    item = outcome_item(outcome, "")
    assert (item["may_be_reused"], item["reserve_estimated"]) == ({}, {})
    assert check(world).verdict is Verdict.PASS
    view = world.view()
    assert {ms for topic in TOPICS for ms in view.copied_up_to(DR, topic).covers_ms} == {COMPLETE}  # type: ignore[union-attr]


def test_the_printed_time_of_death_does_not_make_a_reserve_complete() -> None:
    """It was that of the last answer, 30,000 records before the death: GO, 0 at risk, the check `reserves` PASS."""
    world = FailoverWorld()
    lose_source(world)
    world.clock.jump(45)
    cost = world.plan(Mode.UNPLANNED).forecast
    assert cost.last_answer is not None
    assert cost.last_answer < cost.silent_at
    for printed in (cost.silent_at, cost.last_answer):
        request = FailoverRequest(mode=Mode.UNPLANNED, dead_since=printed)
        again = planning.plan(request, world.clusters(), world.command())
        assert plan_item(again)["reserve"]["complete"] == []
        assert not again.forecast.final
    assert iso_time(cost.silent_at) in silence_words(cost, "--source-dead-since")
    outcome = world.run(approved(world, 1_000, dead_since=cost.silent_at).plan)
    assert set(outcome_item(outcome, "")["reserve_estimated"]) == NAMES
    assert check(world).verdict is Verdict.UNKNOWN


def test_what_a_fence_has_proved_is_not_forgotten_by_the_unplanned_run() -> None:
    """The plan called the reserve complete; the run's own step made the fence pending, and its proof was gone."""
    world = FailoverWorld(writing=True)
    world.run(world.approve().plan, until="drain")
    world.tick()
    world.east.dead, world.copying = True, False
    abort.abort(world.clusters(), world.tools(), world.command())
    world.clock.jump(45)
    shown = plan_item(world.plan(Mode.UNPLANNED))
    assert set(shown["reserve"]["complete"]) == NAMES
    assert (shown["forecast"]["offsets_at_risk"], shown["forecast"]["estimate"]) == (0, 0)
    item = outcome_item(world.run(world.approve(Mode.UNPLANNED).plan), "")
    assert (item["may_be_reused"], item["reserve_estimated"]) == ({}, {})


def test_the_drain_of_an_aborted_run_is_not_that_of_the_next_one() -> None:
    """Approved again, the same plan was refused for a lag that nobody had drained yet."""
    world = FailoverWorld()
    plan = world.approve(Mode.UNPLANNED).plan
    world.run(plan, until="drain")
    abort.abort(world.clusters(), world.tools(), world.command())
    assert world.approve(Mode.UNPLANNED).plan == plan
    world.behind(2)
    assert world.run(plan).record.status is RunStatus.DONE


def test_all_reserves_behind_near_fences_have_one_time_limit_in_all_by_the_clock() -> None:
    """Clients are refused on both sides meanwhile. What is not reserved is on record, with what it costs."""
    world = FailoverWorld(authorizer=False)
    world.east.transactional = dict.fromkeys(PARTITIONS, TransactionalProducers.HERE)
    plan, asked = world.approve().plan, list[str]()

    def slow(point: str) -> None:
        if point == "seal:reserving":
            asked.append(point)
            world.clock.jump(NEAR_SECONDS / 2)

    outcome = world.run(plan, slow)
    assert outcome.record.status is RunStatus.DONE
    assert len(asked) == 2
    assert all(10 < end < 10 + NEAR_RESERVE for end in reserves(world).values())
    assert set(outcome.evidence.found("seal")["may_be_reused"]) == NAMES
    assert "may have used offsets up to 1010" in check(world).reason


def test_nothing_is_reserved_behind_a_near_fence_where_no_producer_is_transactional() -> None:
    world = FailoverWorld(authorizer=False)
    outcome = world.run(world.approve().plan)
    assert set(reserves(world).values()) == {10}
    assert outcome.evidence.found("seal")["may_be_reused"] == {}
    assert check(world).verdict is Verdict.PASS
