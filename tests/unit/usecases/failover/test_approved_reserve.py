"""The reserve of a run whose approval took longer than a look at the source stays recent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.records import RunStatus
from tanist.usecases.failover import planning
from tanist.usecases.failover.items import outcome_item, plan_item
from tanist.usecases.failover.last_look import CopyChanged
from tanist.usecases.failover.planning import FailoverRequest
from tests.unit.usecases.failover.test_run import UNPLANNED, killer, lose_source
from tests.unit.usecases.failover.world import DR, PARTITIONS, RATE, FailoverWorld, Killed

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval


def reserves(world: FailoverWorld) -> dict[str, int]:
    """Where the reserve of each partition ends, by the lineage."""
    told = {each.topic: each for each in world.worker.catch_up(world.soon()).lineage(DR)}
    return {str(at): told[at.topic].reserve_ends[at.partition] for at in PARTITIONS}


def approved(world: FailoverWorld, budget: int) -> Approval:
    request = FailoverRequest(mode=Mode.UNPLANNED, reserve=budget)
    made = planning.plan(request, world.clusters(), world.command())
    return planning.approve(
        made.plan.hash, request, world.clusters(), world.command(), reason="drill", valid_seconds=3600.0
    )


@pytest.mark.parametrize("cut", [None, "before:seal", "seal:no-return", "seal:reserving"])
def test_an_approved_reserve_was_not_made_once_nobody_had_looked_for_thirty_seconds(cut: str | None) -> None:
    """Worker and source had died; the plan showed a reserve, the run came 45 s later and reserved nothing."""
    world = FailoverWorld()
    lose_source(world)
    shown = plan_item(world.plan(Mode.UNPLANNED))["reserve"]
    assert shown["may_be_reused"] == []
    assert set(shown["by_partition"]) == set(map(str, PARTITIONS))
    approval = world.approve(Mode.UNPLANNED)
    world.clock.jump(45)
    if cut is not None:
        with pytest.raises(Killed):
            world.run(approval.plan, killer(UNPLANNED.index(cut)))
    outcome = world.run(approval.plan)
    assert outcome.record.status is RunStatus.DONE
    seen = {f"{topic}-{n}": end for topic, ends in approval.reserve_to for n, end in enumerate(ends)}
    found = reserves(world)
    assert set(seen) == set(map(str, PARTITIONS))
    assert all(found[at] >= end + 45 * RATE for at, end in seen.items()), "the estimate has grown, too"
    assert outcome_item(outcome, "")["may_be_reused"] == {}


@pytest.mark.parametrize("seconds", [10, 45, 600])
def test_a_reserve_that_does_not_fit_any_more_stops_the_run_before_the_point_of_no_return(seconds: int) -> None:
    """What did not fit any more was not reserved, and nobody was told."""
    world = FailoverWorld()
    lose_source(world)
    needed = plan_item(world.plan(Mode.UNPLANNED))["reserve"]["offsets"]
    approval = approved(world, needed + 6)
    world.clock.jump(seconds)
    with pytest.raises(NotPermitted, match="OFFSETS_MAY_BE_REUSED"):
        world.run(approval.plan)
    view = world.worker.catch_up(world.soon())
    assert view.lineage(DR) == ()
    assert not any(each.no_return for each in view.failovers(DR))


def test_a_reserve_that_outgrows_its_budget_within_the_run_stops_it_there() -> None:
    """The last look before the point of no return is what counts."""
    world = FailoverWorld()
    lose_source(world)
    needed = plan_item(world.plan(Mode.UNPLANNED))["reserve"]["offsets"]
    approval = approved(world, needed + 1_000)

    def late(point: str) -> None:
        if point == "before:seal":
            world.clock.jump(120)

    with pytest.raises((CopyChanged, NotPermitted), match="OFFSETS_MAY_BE_REUSED"):
        world.run(approval.plan, late)
    assert world.worker.catch_up(world.soon()).lineage(DR) == ()


@pytest.mark.parametrize("cut", [None, "seal:no-return", "after:seal", "before:movers"])
def test_evidence_and_output_name_what_is_not_reserved(cut: str | None) -> None:
    """It was accepted by name; what it came to, only the step before the point of no return knows."""
    world = FailoverWorld()
    lose_source(world)
    approval = approved(world, 20)
    if cut is not None:
        with pytest.raises(Killed):
            world.run(approval.plan, killer(UNPLANNED.index(cut)))
    outcome = world.run(approval.plan)
    assert outcome.record.status is RunStatus.DONE
    named = outcome_item(outcome, "")["may_be_reused"]
    assert set(named) == set(map(str, PARTITIONS[1:])), "the budget covers the first one"
    assert all("the old source may have used offsets up to" in why for why in named.values())
    assert outcome.evidence.found("end")["may_be_reused"] == named
    seen = {f"{topic}-{n}": end for topic, ends in approval.reserve_to for n, end in enumerate(ends) if end}
    assert all(reserves(world)[at] >= end for at, end in seen.items())
