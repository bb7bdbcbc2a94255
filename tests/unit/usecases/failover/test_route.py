"""There is one list of steps, and what people read of it is that list."""

from __future__ import annotations

import re

from tanist.usecases.failover.route import STEP_IDS
from tests.conftest import PROJECT
from tests.unit.usecases.failover.in_memory import FailoverWorld


def test_the_documentation_has_the_steps_of_the_route_in_their_order() -> None:
    page = (PROJECT / "docs" / "failover-explained.md").read_text()
    (table,) = re.findall(r"\| step \| postcondition \|\n\|---\|---\|\n((?:\|.*\n)+)", page)
    assert tuple(line.split("|")[1].strip() for line in table.splitlines()) == STEP_IDS


def test_an_approval_binds_the_route() -> None:
    assert FailoverWorld().plan().plan.steps == STEP_IDS


def test_a_call_names_the_steps_that_it_did() -> None:
    """Also those that an earlier call had done: groups are translated again until the point of no return."""
    world = FailoverWorld()
    world.behind()
    plan = world.approve().plan
    assert world.run(plan, until="drain").did == ("hold", "fence", "drain")
    assert world.run(plan, until="groups").did == ("groups",)
    assert world.run(plan, until="seal").did == ("groups", "seal")
    assert world.run(plan).did == STEP_IDS[STEP_IDS.index("seal") + 1 :]
