"""How far a command goes is counted as it runs, and does not grow unseen."""

from __future__ import annotations

import pytest

from bench.walk import COMMANDS, walked
from tanist.usecases import state_topics
from tests.unit.usecases.failover.world import FailoverWorld

LIMITS = {
    "failover plan, approve, run": (49, 1_489, 13),
    "mirrors reverse: plan, approve, run": (38, 669, 59),
    "status": (16, 81, 3),
}
"""Modules, returns and openings of state topics of each command: lower them when they fall."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_goes_no_further_than_it_did(command: str) -> None:
    """A reversal visited 39 modules, came back to one that it had left 85 times, and opened a state topic 60 times."""
    walk = COMMANDS[command]()
    modules, returns, opened = LIMITS[command]
    assert len(walk.modules) <= modules, walk.modules
    assert walk.returns <= returns
    assert walk.opened <= opened


def test_a_call_into_another_module_is_a_visit_and_an_answer_is_none() -> None:
    world = FailoverWorld()

    def twice() -> None:
        for _ in range(2):
            state_topics.missing_state_topics(world.west.side(), world.soon())

    found = walked(twice)
    assert (found.modules, len(found.visits), found.returns) == (["tanist.usecases.state_topics"], 2, 1)
