"""Where a mirror is while it is reversed, in memory: each cluster is asked at each point of the reversal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.circle import CircleStage, locate
from tanist.domain.moves import opposite
from tanist.domain.records import STATE_TOPIC
from tanist.usecases import state_topics
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import reverse
from tanist.usecases.failback.withdrawing import ReversalWithdrawn
from tests.unit.usecases.failover.world import DR, FailoverWorld, Killed
from tests.unit.usecases.returning import returned


def approved() -> FailoverWorld:
    """The mirror has failed over from east to west, and its reversal is approved."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    planned = reversal.plan(ReversalRequest(), returned(world), world.command()).plan
    terms = ApprovalTerms.of("drill", 3_600)
    reversal.approve(planned.hash, ReversalRequest(), returned(world), world.command(), terms=terms)
    return world


def stages(world: FailoverWorld) -> tuple[CircleStage, CircleStage]:
    """As west and as east has it."""
    west, east = (state_topics.read(each.side(), STATE_TOPIC, world.soon()) for each in (world.west, world.east))
    return locate(DR, west, east).stage, locate(DR, east, west).stage


def killed_at(world: FailoverWorld, point: str) -> None:
    def checkpoint(reached: str) -> None:
        if reached == point:
            raise Killed

    with pytest.raises(Killed):
        reverse(ReversalRequest(), returned(world), world.command(), checkpoint)


@pytest.mark.parametrize(
    ("point", "west", "east"),
    [
        ("moving", CircleStage.LEAVING, CircleStage.ABSENT),
        ("settling", CircleStage.LEAVING, CircleStage.ABSENT),
        ("state", CircleStage.HANDED_OVER, CircleStage.ARRIVING),
        ("forgotten", CircleStage.HANDED_OVER, CircleStage.ARRIVING),
        ("left", CircleStage.MOVED, CircleStage.ARRIVING),
    ],
)
def test_both_clusters_say_how_far_a_reversal_that_was_killed_has_come(
    point: str, west: CircleStage, east: CircleStage
) -> None:
    world = approved()
    assert stages(world) == (CircleStage.FAILED_OVER, CircleStage.ABSENT)
    killed_at(world, point)
    assert stages(world) == (west, east)
    if west is not CircleStage.MOVED:
        reverse(ReversalRequest(), returned(world), world.command())
        assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)


def test_a_reversal_that_finds_another_mirror_of_its_name_is_withdrawn() -> None:
    """It was taken for the same mirror, so that the reversal could be neither completed nor withdrawn."""
    world = approved()
    another = replace(opposite(world.spec), mirror_id="another")

    def checkpoint(reached: str) -> None:
        if reached == "ready":
            world.east.write(STATE_TOPIC, another)

    with pytest.raises(ReversalWithdrawn, match="MIRROR_ALREADY_EXISTS"):
        reverse(ReversalRequest(), returned(world), world.command(), checkpoint)
    assert stages(world) == (CircleStage.FAILED_OVER, CircleStage.EMPTY)
