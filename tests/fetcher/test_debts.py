"""What a failover leaves to do is done as soon as it can be, by one worker, and exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.fences import FenceStatus
from tanist.domain.names import EpochMs
from tanist.domain.records import PartitionObserved, fenced, fold, observed, promoted, topics
from tanist.domain.states import MirrorState
from tanist.fetcher.assignment import Report
from tanist.fetcher.debts import EVERY_SECONDS, SEAL_AGAIN_SECONDS, Debts, Guards
from tanist.fetcher.planning import Moment, Owned, next_observed
from tanist.usecases.failover import abort
from tests.fakes.failover import MemoryFencing, MemorySealing
from tests.usecases.failover.test_run import PLANNED, killer
from tests.usecases.failover.world import DATA, DR, PARTITIONS, TOPICS, Killed, World

if TYPE_CHECKING:
    from tanist.domain.records import StateView

EVERYTHING = frozenset(range(50))


def debts(world: World) -> Debts:
    guards = Guards(fencing=lambda _name: MemoryFencing(world.east), sealing=MemorySealing(world.west))
    return Debts(guards, world.worker, 50, world.clock)


def settled(world: World, of: Debts, owned: frozenset[int] = EVERYTHING) -> set[str]:
    world.clock.jump(EVERY_SECONDS)
    of.settle(view(world), owned)
    return {each.status for each in fenced(view(world), DR)}


def view(world: World) -> StateView:
    return world.worker.catch_up(world.soon())


def burnt(*, authorizer: bool = True) -> World:
    """After an unplanned failover: the source is dead, its fence is owed."""
    world = World(authorizer=authorizer)
    world.east.dead = True
    world.run(world.approve(Mode.UNPLANNED).plan)
    return world


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_returning_source_is_fenced_from_a_snapshot_that_was_stored_before(authorizer: bool) -> None:
    world = burnt(authorizer=authorizer)
    worker = debts(world)
    assert settled(world, worker) == {FenceStatus.OWED}
    world.east.dead = False
    assert all(world.east.may_write(topic, "app") for topic in TOPICS)
    assert settled(world, worker) == {FenceStatus.STANDING}
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)
    assert all(each.before is not None for each in fenced(view(world), DR))
    abort.lift(world.clusters(), world.command(), of_promoted=True)
    assert world.source_is_as_it_was()


def test_a_worker_that_does_not_own_the_mirror_leaves_its_debts_alone() -> None:
    world = burnt()
    world.east.dead = False
    assert settled(world, debts(world), frozenset()) == {FenceStatus.OWED}


def test_a_fence_that_could_not_be_lifted_is_lifted_later() -> None:
    world = World()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("fence:applied")))
    world.east.dead = True
    abort.abort(world.clusters(), world.tools(), world.command())
    world.east.dead = False
    assert not world.source_is_as_it_was()
    assert settled(world, debts(world)) == {FenceStatus.LIFTED}
    assert world.source_is_as_it_was()


def test_nothing_is_settled_while_a_run_is_under_way() -> None:
    world = World()
    world.east.dead = True
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("after:fence") - 2))
    world.east.dead = False
    assert settled(world, debts(world)) <= {FenceStatus.OWED}


def test_a_barrier_that_brokers_forgot_is_put_up_again() -> None:
    world = burnt()
    world.west.epochs.clear()
    world.clock.jump(SEAL_AGAIN_SECONDS)
    settled(world, debts(world))
    assert not any(world.zombie(at) for at in PARTITIONS)


# ── what workers make of a promotion ──────────────────────────────────────────────────────────────────────────────


def test_promoted_is_said_of_what_left_the_mirror_and_of_nothing_else() -> None:
    world = World()
    assert not any(promoted(view(world), DR, topic) for topic in TOPICS)
    world.run(world.approve(Mode.PLANNED, "orders").plan)
    assert promoted(view(world), DR, "orders")
    assert not promoted(view(world), DR, "payments")


def test_a_promotion_that_is_read_before_its_wish_is_no_new_wish() -> None:
    """Records of one transaction lie in several partitions of the state topic, and are read in any order."""
    world = World()
    before = view(world)
    world.run(world.approve().plan)
    at, topic = PARTITIONS[0], topics(before, DR)[0]
    stopped = observed(view(world), DR, at)
    mine = Owned(world.spec, topic, at, 0)
    assert stopped is not None
    assert next_observed(mine, stopped, Report(), 9, Moment(EpochMs(1), 1.0)) is None


def test_what_a_worker_writes_late_does_not_undo_a_promotion() -> None:
    world = World()
    world.run(world.approve().plan)
    for row, state in ((900, MirrorState.FAILED), (300, MirrorState.STOPPING), (100, MirrorState.PREPARING)):
        late = PartitionObserved(
            mirror=DR, partition=PARTITIONS[0], state=state, row=row, claim_epoch=99, at=EpochMs(1)
        )
        after = observed(fold(view(world), [late]), DR, PARTITIONS[0])
        assert after is not None
        assert after.state is MirrorState.STOPPED
    assert not world.west.append(PARTITIONS[0], DATA, 0)
