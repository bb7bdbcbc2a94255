"""Other writers of a mirror topic are denied WRITE by name until a failover, which undoes exactly that."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failover import abort
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, killer

KEPT: Final = {("orders", "User:kept"), ("payments", "User:app")}
"""DENY ACLs that others have created."""


@pytest.fixture
def world() -> FailoverWorld:
    world = FailoverWorld()
    world.behind()
    orders = world.west.view(STATE_TOPIC).topic(DR, "orders")
    assert orders is not None
    world.worker.append([replace(orders, denied=("User:app", "User:batch"))], world.soon())
    world.west.deny = {*KEPT, ("orders", "User:app"), ("orders", "User:batch")}
    return world


@pytest.mark.parametrize("cut", range(len(PLANNED)))
def test_a_failover_that_is_killed_anywhere_allows_exactly_those_again_who_were_denied(
    world: FailoverWorld, cut: int
) -> None:
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    world.run(plan)
    assert world.west.deny == {*KEPT, *((topic, "User:mirror") for topic in TOPICS)}


@pytest.mark.parametrize("cut", range(PLANNED.index("seal:no-return")))
def test_an_abort_leaves_them_denied_because_the_topic_is_still_mirrored(world: FailoverWorld, cut: int) -> None:
    before = set(world.west.deny)
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    if world.west.view(STATE_TOPIC).unfinished(DR) is not None:
        abort.abort(world.clusters(), world.tools(), world.command())
    assert world.west.deny == before
