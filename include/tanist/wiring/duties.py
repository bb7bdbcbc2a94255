"""The periodic duties of a worker: the same use cases as those of the DAGs and of the commands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tanist.domain.duties import Duty, DutyResult
from tanist.domain.errors import Stopped
from tanist.usecases import periodic
from tanist.usecases.command import CommandContext
from tanist.wiring.threads import InterruptedClock

if TYPE_CHECKING:
    from threading import Event

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Clock, Deadline
    from tanist.wiring.registry import ClusterRegistry


@dataclass(frozen=True, slots=True)
class RegistryDuties:
    """The port `DutyRunner`, with a registry of its own. `worker`: its id in the state topic."""

    registry: ClusterRegistry
    destination: str
    worker: str
    clock: Clock

    @classmethod
    def of(cls, registry: ClusterRegistry, destination: str, worker: str, clock: Clock, stop: Event) -> RegistryDuties:
        """For another thread, whose waits end with Stopped once `stop` is set."""
        stopped = partial(Stopped, "this worker is stopping")
        return cls(registry.again(), destination, worker, InterruptedClock(clock, stop, stopped))

    def run(self, mirror: MirrorName, duty: Duty, by: Deadline) -> DutyResult:
        context = CommandContext(clock=self.clock, by=by, holder=f"worker {self.worker}", is_worker=True)
        there = self.registry.connect(self.destination)
        if duty is Duty.METADATA:
            return periodic.sync_metadata(mirror, there, self.registry.connect, context).of_duty()
        found = self.registry.open_mirror(there, mirror, context, any_copier=True)
        return periodic.sync_positions(found, context).of_duty()

    def close(self) -> None:
        self.registry.__exit__(None, None, None)
