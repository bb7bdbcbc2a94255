"""Failovers of a mirror with mapped offsets: killed anywhere, while its worker lives, or has died in a transaction."""

from __future__ import annotations

import pytest

from tanist.domain.checks import Mode
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.states import MirrorState
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, WRITER, Killed
from tests.unit.usecases.failover.mapped import MappedWorld
from tests.unit.usecases.failover.runs import TAIL, killer, lose_source, named


def points(mode: Mode) -> list[str]:
    """Every place where a run can be cut, in order."""
    world, seen = prepared(mode), list[str]()
    world.run(world.approve(mode).plan, seen.append)
    return seen


def prepared(mode: Mode) -> MappedWorld:
    """Planned: the copy is behind. Unplanned: the source is gone, and the worker died in an open transaction."""
    world = MappedWorld()
    if mode is Mode.PLANNED:
        world.behind()
        return world
    for at in PARTITIONS:
        world.east.grow(at, 3)
        if not world.copier.owns(at):
            world.copier.take_over(at)
        assert world.copier.append(at, 2)
    lose_source(world)
    return world


PLANNED, UNPLANNED = points(Mode.PLANNED), points(Mode.UNPLANNED)


def assert_promoted(world: MappedWorld) -> None:
    view = world.view()
    assert all(view.observed(DR, at).state is MirrorState.STOPPED for at in PARTITIONS)  # type: ignore[union-attr]
    assert all(view.promotions(DR, topic) == 1 for topic in TOPICS)
    assert all(world.west.may_write(topic, "app") for topic in TOPICS)
    assert world.west.given == {(topic, WRITER) for topic in TOPICS}
    told = {each.topic: each for each in view.lineage(DR)}
    ends = dict(world.west.ends)
    for at in PARTITIONS:
        entry, copied = told[at.topic], view.copied_up_to(DR, at.topic)
        assert copied is not None
        assert copied.copied[at.partition] == world.position(at).position
        assert entry.old_ends == entry.reserve_ends, "nothing is reserved"
        assert max(world.found[at].values()) < entry.old_ends[at.partition]
        assert not world.zombie(at)
        assert world.west.ends[at][2] == ends[at][2]
        assert_translated(world, at.topic, at.partition)
    if not world.east.dead:
        assert world.east.view(STATE_TOPIC).lineage(DR) == view.lineage(DR)


def assert_translated(world: MappedWorld, topic: str, partition: int) -> None:
    """What is published is exact for ever: each copied record, and where reading goes on behind the last one."""
    at = next(each for each in PARTITIONS if each == (topic, partition))
    policy, position = world.published(), world.position(at)
    for offset, found in world.found[at].items():
        assert policy.in_copy(at, offset) == found
    for more in (0, 1, 100):
        assert policy.in_copy(at, SourceOffset(position.position + more)) == position.end
    assert policy.copied(at, DestinationOffset(world.west.ends[at][2])) == position.position


def test_a_planned_failover_loses_nothing_and_leaves_nobody_writing() -> None:
    world = MappedWorld(writing=True)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert_promoted(world)
    for at in PARTITIONS:
        assert len(world.found[at]) == world.east.ends[at][2], "every record of the source, once"


@pytest.mark.parametrize("cut", range(len(PLANNED)), ids=named(PLANNED))
def test_a_planned_run_that_was_killed(cut: int) -> None:
    world = prepared(Mode.PLANNED)
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


@pytest.mark.parametrize("cut", range(len(UNPLANNED)), ids=named(UNPLANNED))
def test_an_unplanned_run_that_was_killed(cut: int) -> None:
    """What the dead worker has left open is aborted first: then the ends are read."""
    world = prepared(Mode.UNPLANNED)
    positions = {at: world.position(at).position for at in PARTITIONS}
    planned = world.plan(Mode.UNPLANNED)
    assert planned.forecast.offsets_at_risk == (TAIL + 3) * len(PARTITIONS)
    assert planned.reserve.offsets == 0
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)
    assert {at: world.position(at).position for at in PARTITIONS} == positions
    assert not world.west.owned, "nothing holds the last stable offset"


def test_a_run_that_is_repeated_fences_nothing_again() -> None:
    world = prepared(Mode.PLANNED)
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("after:seal")))
    ends = dict(world.west.ends)
    assert world.run(plan, until="generation").record.status is RunStatus.RUNNING
    assert dict(world.west.ends) == ends


def test_a_worker_that_takes_over_while_its_topics_leave_copies_nothing_more() -> None:
    """It has its lease, and gets a new epoch: what keeps it off is the state that it reads after that."""
    world = MappedWorld()
    seen = list[int]()

    def woken(point: str) -> None:
        if point == "seal:no-return":
            for at in PARTITIONS:
                world.east.grow(at, 5)
        if point in {"seal:no-return", "seal:half", "seal:sealed", "seal:published"}:
            before = dict(world.found)
            world.tick()
            assert world.found == before
            seen.append(1)

    assert world.run(world.approve(Mode.UNPLANNED).plan, woken).record.status is RunStatus.DONE
    assert len(seen) == 4
    assert_promoted(world)
