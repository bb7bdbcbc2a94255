"""What the plan of a reversal says of the old source: who is denied there while the mirror writes to it."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import WRITER, FailoverWorld
from tests.unit.usecases.returning import returned


def test_an_acl_that_an_earlier_failover_has_given_is_taken_back_and_nobody_is_denied_for_it() -> None:
    """The DENY would have stayed behind: whoever takes the ACL back has nobody left to deny."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    orders = world.west.view(STATE_TOPIC).topic(DR, "orders")
    assert orders is not None
    world.west.write(STATE_TOPIC, replace(orders, given_at_source=(WRITER,)))
    plan = reversal.plan(ReversalRequest(), returned(world), world.command()).plan
    assert {each.topic: each.denied for each in plan.topics} == {"orders": (), "payments": (WRITER.principal,)}
