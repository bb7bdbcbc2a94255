"""The command line on clusters in memory: several mirrors, one `FailoverWorld` each."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from tanist.cli import failover_runs, options
from tanist.domain.names import MirrorName
from tanist.settings import Settings
from tanist.usecases.failover.tools import GroupsMoved, Tools
from tanist.wiring.registry import ClusterRegistry
from tests.unit.usecases.failover.in_memory import BusyClock, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.mirror import OpenMirror


class MemoryRegistry(ClusterRegistry):
    """The registry, with clusters in memory. `user`: who this login is at destinations."""

    def __init__(self, worlds: Sequence[FailoverWorld], user: str = "approver") -> None:
        super().__init__(Settings("nowhere", {}))
        self._worlds, self._user = tuple(worlds), user

    def names(self) -> tuple[str, ...]:
        return tuple(sorted({name for world in self._worlds for name in (world.east.name, world.west.name)}))

    def connect(self, name: str) -> Cluster:
        for world in self._worlds:
            if world.west.name == name:
                return world.clusters(self._user).destination
        return next(world.east.side() for world in self._worlds if world.east.name == name)

    def mirror(self, spec: MirrorSpec, destination: Cluster) -> OpenMirror:
        here = (spec.mirror, destination.name)
        return next(world.clusters(self._user) for world in self._worlds if (world.mirror, world.west.name) == here)

    def again(self) -> ClusterRegistry:
        return MemoryRegistry(self._worlds, self._user)


def three_mirrors() -> tuple[FailoverWorld, FailoverWorld, FailoverWorld]:
    """`orders` and `stock` of west, and another `orders` of south. Their sources are east, north and center."""
    clock = BusyClock()
    orders = FailoverWorld(mirror=MirrorName("orders"), topics={"orders": 2}, clock=clock)
    stock = FailoverWorld(
        mirror=MirrorName("stock"), topics={"stock": 1}, source="north", destination=orders.west, clock=clock
    )
    south = FailoverWorld(
        mirror=MirrorName("orders"), topics={"orders": 1}, source="center", destination="south", clock=clock
    )
    worlds = (orders, stock, south)

    turn = Lock()

    def tick() -> None:
        with turn:
            for world in worlds:
                world.tick()

    clock.meanwhile = tick
    return worlds


def use(monkeypatch: pytest.MonkeyPatch, worlds: Sequence[FailoverWorld]) -> None:
    """Commands of this process have these clusters, and their clock. Groups have no positions."""
    tools = partial(Tools, move_groups=lambda *_: GroupsMoved(rows=()))
    monkeypatch.setattr(failover_runs, "Tools", tools)
    monkeypatch.setattr(options, "ClusterRegistry", lambda *_: MemoryRegistry(worlds))
    monkeypatch.setattr(options, "SystemClock", lambda *_: worlds[0].clock)
