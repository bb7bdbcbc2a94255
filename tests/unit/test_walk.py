"""How far a command goes is counted as it runs, and does not grow unseen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from bench.walk import COMMANDS, walked
from tanist.domain.checks import Mode
from tanist.usecases import snapshot
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import reverse
from tanist.usecases.failover import planning
from tanist.usecases.failover.planning import FailoverRequest
from tests.fakes.cluster import MemoryCluster
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.returning import returned

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline

LIMITS = {
    "failover plan, approve, run": (26, 704, 11),
    "mirrors reverse: plan, approve, run": (28, 453, 10),
    "status": (11, 60, 3),
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


def test_a_command_has_one_reader_and_one_writer_of_each_state_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reversal opened them 60 times. Those that it creates at the old source, and locks there, it opens twice."""
    opened = Counter[tuple[str, str, bool]]()
    real = MemoryCluster.open_store

    def counted(self: MemoryCluster, topic: str, mirror: MirrorName | None, by: Deadline, **how: bool) -> Any:
        opened[self.name, topic, mirror is not None or how.get("appends", False)] += 1
        return real(self, topic, mirror, by, **how)

    def several() -> set[str]:
        found = {cluster for (cluster, _, _), count in opened.items() if count > 1}
        opened.clear()
        return found

    monkeypatch.setattr(MemoryCluster, "open_store", counted)
    world = FailoverWorld()
    plan = world.plan().plan.hash
    assert several() == set()
    asked = FailoverRequest(mode=Mode.PLANNED)
    planning.approve(plan, asked, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 60))
    assert several() == set()
    world.run(plan)
    assert several() == set()
    clusters, request = returned(world), ReversalRequest()
    made = reversal.plan(request, clusters, world.command()).plan
    assert several() == set()
    reversal.approve(made.hash, request, returned(world), world.command(), terms=ApprovalTerms.of("drill", 60))
    assert several() == set()
    reverse(request, returned(world), world.command())
    assert several() == {"east"}


def test_a_call_into_another_module_is_a_visit_and_an_answer_is_none() -> None:
    world = FailoverWorld()

    def twice() -> None:
        for _ in range(2):
            snapshot.missing_state_topics(world.west.side(), world.soon())

    found = walked(twice)
    assert (found.modules, len(found.visits), found.returns) == (["tanist.usecases.snapshot"], 2, 1)
