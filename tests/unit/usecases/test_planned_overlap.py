"""The way back of a planned failover behind whose back the old source took a record."""

from __future__ import annotations

from dataclasses import dataclass

from tanist.domain.checks import Mode
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tests.fakes.failover import MemoryApprovals
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.failover.runs import lose_source
from tests.unit.usecases.test_next_steps import ask, commands
from tests.unit.usecases.way_back import TAIL_PARTITION, WayBack


@dataclass
class LateWriter(WayBack):
    """West has taken over as planned, and somebody has written to east since."""

    def __post_init__(self) -> None:
        FailoverWorld.__post_init__(self)
        self.east.with_topic(STATE_TOPIC).with_topic(OFFSETS_TOPIC).with_topic(GROUPS_TOPIC)
        MemoryApprovals(self.east).create(self.soon())
        self.run(self.approve(Mode.PLANNED).plan)
        self.write(self.east, TAIL_PARTITION, b"late")
        self.write(self.west, TAIL_PARTITION, b"of the new primary")


def test_an_overlap_that_nobody_has_surveyed_is_surveyed_first() -> None:
    """`tanist next` said FAILED_OVER and `no command`."""
    world = LateWriter()
    found = ask(world, world.opened())
    assert found.missing[0].startswith("OFFSETS_OVERLAP: orders-0"), found.missing
    assert commands(found) == ["tanist failback survey dr"]


def test_what_is_advised_without_the_source_reserves_as_usual() -> None:
    """A planned intent reserves nothing: `--reserve none` stood beside the command of `tanist next` without it."""
    world = FailoverWorld()
    lose_source(world)
    world.clock.wait(15)
    assert world.limitations()["SOURCE_DOWN"].endswith("`tanist failover plan dr --destination west --mode unplanned`")
