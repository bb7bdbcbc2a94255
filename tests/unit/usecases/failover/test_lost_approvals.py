"""What becomes of the approvers' topic while a run is unfinished."""

from __future__ import annotations

import pytest

from tanist.domain.approval.entries import NotApproved
from tanist.domain.checks import Mode
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.failover.runs import assert_promoted


def test_a_run_past_the_point_of_no_return_is_finished_though_its_approval_is_gone() -> None:
    """Retention had deleted it, or the topic was re-created: nothing finished the run, and nobody could write."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="seal")
    world.west.approvals.clear()
    world.run(plan)
    assert_promoted(world)


@pytest.mark.parametrize("until", ["fence", "seal"])
def test_a_run_does_not_take_another_plans_approval_at_the_same_offset_for_its_own(until: str) -> None:
    """The topic was re-created, so the first approval in it had the id of the run's own: it promoted other topics."""
    other = FailoverWorld().approve(Mode.PLANNED, "payments")
    world = FailoverWorld()
    plan = world.approve(Mode.PLANNED, "orders").plan
    world.run(plan, until=until)
    world.west.approvals[:] = [other]
    if until == "fence":
        with pytest.raises(NotApproved, match="no longer exists"):
            world.run(plan)
    else:
        world.run(plan)
    view = world.view()
    assert not view.promoted(DR, "payments")
    assert view.promoted(DR, "orders") is (until == "seal")
