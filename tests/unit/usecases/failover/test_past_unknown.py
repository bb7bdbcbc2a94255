"""A check of the past that could not look does not pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Verdict
from tanist.usecases.command import Silence
from tanist.usecases.failover.status import checks
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from tanist.domain.checks import Check


def fences(world: FailoverWorld) -> Check:
    found = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    return next(each for each in found if each.name == "fences")


def test_source_fences_of_a_silent_source_do_not_pass() -> None:
    """Somebody lifted them, and then the source was silent."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    assert fences(world).verdict is Verdict.PASS
    world.east.deny.clear()
    world.east.dead = True
    found = fences(world)
    assert found.verdict is Verdict.UNKNOWN
    assert "the source does not report whether its source fence is in force" in found.reason
    world.east.dead = False
    assert fences(world).verdict is Verdict.FAIL
