"""A worker that puts right what a failover has left to do, and failovers that leave something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.records import (
    STATE_TOPIC,
)
from tanist.fetcher.fence_reconciler import EVERY_SECONDS, FenceReconciler, Guards
from tanist.usecases.command import CommandContext
from tanist.usecases.failover import abort
from tanist.usecases.lock import Purpose, mirror_lock
from tests.builders import DR
from tests.fakes.failover import MemoryFencing, MemoryProducerFencing, MemoryReplicas
from tests.unit.usecases.failover.in_memory import FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, killer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.promotions import PromotionRecord
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline


class Sources:
    """The port `SourceStates`: the state topic of east. `asked`: how often."""

    def __init__(self, world: FailoverWorld) -> None:
        self._world, self.asked = world, 0

    def read(self, _spec: MirrorSpec, by: Deadline) -> StateView:
        self.asked += 1
        self._world.east.answer()
        return self._world.east.view(STATE_TOPIC)

    def report_promotions(self, _spec: MirrorSpec, promotions: Sequence[PromotionRecord], by: Deadline) -> None:
        self._world.east.answer()
        self._world.east.write(STATE_TOPIC, *promotions)

    def close(self) -> None:
        pass


def debts(
    world: FailoverWorld,
    sources: Sources | None = None,
    *,
    owns: bool = True,
    holds: Callable[[int], bool] | None = None,
) -> FenceReconciler:
    guards = Guards(
        fencing=lambda _name: MemoryFencing(world.east),
        producer_fencing=MemoryProducerFencing(world.west),
        replicas=MemoryReplicas(world.west),
        sources=sources or Sources(world),
        lock=lambda mirror, operation, by: mirror_lock(
            world.west.side(),
            mirror,
            Purpose(operation=operation, preemptible=True),
            CommandContext(clock=world.clock, by=by, holder="worker w"),
        ),
    )
    return FenceReconciler(guards, world.worker, 50, world.clock, holds or (lambda _slice: owns))


def settled(world: FailoverWorld, of: FenceReconciler) -> set[str]:
    world.clock.jump(EVERY_SECONDS)
    of.reconcile_all(world.view())
    return {each.status for each in world.view().source_fences(DR)}


def burnt(*, authorizer: bool = True) -> FailoverWorld:
    """After an unplanned failover: the source is dead, its fence is owed."""
    world = FailoverWorld(authorizer=authorizer)
    world.east.dead = True
    world.run(world.approve(Mode.UNPLANNED).plan)
    return world


def aborted() -> FailoverWorld:
    """A run was killed behind its fence, and aborted."""
    world = FailoverWorld()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("fence:applied")))
    abort.abort(world.clusters(), world.tools(), world.command())
    return world


def late_fence(world: FailoverWorld) -> None:
    """What the request of a run that was frozen does, once it arrives after the abort."""
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).apply(before, world.soon())
