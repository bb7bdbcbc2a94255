"""What a plan says of topics that were failed over already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.errors import TopicNotInMirror
from tanist.domain.failover.failed_over import TopicsFailedOver
from tanist.domain.names import iso_time

if TYPE_CHECKING:
    from tests.unit.usecases.failover.in_memory import FailoverWorld


@pytest.mark.parametrize("mode", list(Mode))
def test_a_plan_after_a_failover_says_when_and_by_which_plan(world: FailoverWorld, mode: Mode) -> None:
    """It said that '.*' matches no topic of the mirror."""
    signed = world.approve(mode)
    done = world.run(signed.plan).record
    with pytest.raises(TopicsFailedOver) as refused:
        world.plan()
    when = f"(plan {signed.plan}, {iso_time(done.at)})"
    assert refused.value.reason == f"mirror 'dr' has failed over orders {when}; payments {when}"
    assert "`tanist next`" in str(refused.value)
    assert refused.value.name == "TOPIC_NOT_IN_MIRROR"
    with pytest.raises(TopicNotInMirror, match="'nothing' matches no topic") as unknown:
        world.plan(Mode.PLANNED, "nothing")
    assert not isinstance(unknown.value, TopicsFailedOver)


def test_only_the_topics_that_have_left_are_named(world: FailoverWorld) -> None:
    signed = world.approve(Mode.PLANNED, "orders")
    world.run(signed.plan)
    assert world.plan().plan.intent.names == ("payments",)
    with pytest.raises(TopicsFailedOver) as refused:
        world.plan(Mode.PLANNED, "orders", "payments")
    assert "orders (plan" in refused.value.reason
    assert "payments" not in refused.value.reason
