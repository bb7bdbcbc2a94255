"""Groups that go on at the destination while a command or a failover sleeps, over the real use cases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import Interrupted, MirrorLocked, Unreachable
from tanist.domain.names import EpochMs, SourceOffset
from tanist.domain.records import GROUPS_TOPIC, GroupPosition
from tanist.usecases.failover.run import run as run_failover
from tanist.usecases.failover.steps.groups import moved_by
from tanist.usecases.groups.contacts import GroupContacts
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups, sync_locked
from tests.fakes.positions import BEFORE_END, BEFORE_PENDING, BEFORE_READ, MemoryGroups, MemoryPositions
from tests.usecases.failover.world import DR, PARTITIONS, Killed, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.ports.clock import Deadline
    from tanist.usecases.failover.clusters import Clusters, GroupsMoved
    from tanist.usecases.failover.run import Outcome
    from tanist.usecases.groups.sync import Synced

GROUP, AT = "billing", PARTITIONS[0]
SLEEPS = (BEFORE_PENDING, BEFORE_READ, BEFORE_END)


def nowhere(_point: str) -> None:
    """It does not sleep."""


@dataclass
class Moving:
    """A mirror with 120 records in AT, and a group that stands at 50 at the source, which is not asked."""

    world: World = field(default_factory=World)
    groups: MemoryGroups = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        self.groups = MemoryGroups(world.west)
        world.east.grow(AT, 110)
        while world.west.ends[AT][2] < 120:
            world.tick()
        kept = GroupPosition(mirror=DR, group=GROUP, partition=AT, offset=SourceOffset(50), at=EpochMs(1))
        world.west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, kept)

    def stands(self) -> int | None:
        found = self.groups.group(GROUP).now(AT)
        return None if found is None else found.offset

    def read_on(self) -> None:
        """A consumer of the destination, from where the group stands, up to 100."""
        assert self.stands() == 50
        self.groups.commit(GROUP, AT, 100)

    def sync(self, checkpoint: Callable[[str], None] = nowhere) -> Synced:
        command = replace(self.world.command(), holder="sync")
        return sync_locked(self.world.spec, self._contacts(checkpoint), SyncRequest(), command)

    def failover(self, plan: str, checkpoint: Callable[[str], None] = nowhere, runner: str = "eve@host") -> Outcome:
        """With the real use case behind the step `groups`."""
        command = self.world.command()

        def move(
            topics: Sequence[str], groups: Sequence[str], by: Deadline, confirm: Callable[[], None], *, ask_source: bool
        ) -> GroupsMoved:
            chosen = Chosen(groups=tuple(groups), topics=frozenset(topics), ask_source=ask_source)
            request = SyncRequest(chosen=chosen, confirm=confirm)
            return moved_by(sync_groups(self.world.spec, self._contacts(checkpoint), request, command))

        clusters: Clusters = replace(self.world.clusters("operator"), move_groups=move)
        return run_failover(plan, clusters, self.world.tools(runner=runner), command)

    def _contacts(self, checkpoint: Callable[[str], None]) -> GroupContacts:
        return GroupContacts(
            destination=self.world.west.side(),
            positions=MemoryPositions(self.groups, DR, checkpoint),
            source=Unreachable("it is not configured here"),
        )


def asleep_at(wanted: str, meanwhile: Callable[[], None]) -> Callable[[str], None]:
    """Sleeps once, while others are at work."""
    slept: list[str] = []

    def checkpoint(point: str) -> None:
        if point == wanted and not slept:
            slept.append(point)
            meanwhile()

    return checkpoint


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_sync_that_wakes_after_a_failover_moves_no_group(sleeps: str) -> None:
    """The failover does not wait for it: it takes the lock away, moves the groups itself and promotes."""
    moving = Moving()
    plan = moving.world.approve().plan

    def meanwhile() -> None:
        assert not moving.failover(plan).left
        moving.read_on()

    with pytest.raises(MirrorLocked):
        moving.sync(asleep_at(sleeps, meanwhile))
    assert moving.stands() == 100


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_failover_that_wakes_after_another_run_of_it_moves_no_group(sleeps: str) -> None:
    """Frozen for so long that its heartbeat is none; the other run of the same plan has gone to the end."""
    moving = Moving()
    plan = moving.world.approve().plan

    def meanwhile() -> None:
        moving.world.clock.jump(60)
        assert not moving.failover(plan, runner="mallory@host").left
        moving.read_on()

    with pytest.raises(Interrupted, match="taken this run over"):
        moving.failover(plan, asleep_at(sleeps, meanwhile))
    assert moving.stands() == 100


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_failover_run_right_after_a_killed_sync_moves_its_groups(sleeps: str) -> None:
    """Nothing is left pending that would keep a group from being moved before the point of no return."""
    moving = Moving()
    plan = moving.world.approve().plan

    def killed() -> None:
        raise Killed

    with pytest.raises(Killed):
        moving.sync(asleep_at(sleeps, killed))
    outcome = moving.failover(plan)
    assert outcome.evidence.found("groups")["problems"] == []
    assert moving.stands() == 50


def test_groups_sync_stands_back_while_a_failover_is_unfinished() -> None:
    """It fences nobody: the run goes on undisturbed."""
    moving = Moving()
    plan = moving.world.approve().plan
    moving.world.run(plan, until="fence")
    before = len(moving.world.west.states)
    with pytest.raises(MirrorLocked, match=plan):
        moving.sync()
    assert (moving.stands(), len(moving.world.west.states)) == (None, before)
    assert not moving.failover(plan).left
    assert moving.stands() == 50


def test_two_syncs_at_once_are_one() -> None:
    """The second is told who is at work, and the first one ends as if it were alone."""
    moving = Moving()

    def meanwhile() -> None:
        with pytest.raises(MirrorLocked, match="groups sync"):
            moving.sync()

    rows = moving.sync(asleep_at(BEFORE_READ, meanwhile)).rows
    assert [row.committed for row in rows] == [True]
    assert moving.stands() == 50
