"""Where the story plays: two clusters, the command line, an audience; and which topics are in which mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist_testkit.verify.flows import Flow

if TYPE_CHECKING:
    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.demo.commands import DemoCommands
    from tanist_testkit.demo.environment import Environment
    from tanist_testkit.demo.screen import Screen

STORM: Final = "m1"
"""Mirrored while everything that can be killed is killed; at the end its source dies."""
PLANNED: Final = "m2"
ABORTED: Final = "m3"
FLOWS: Final = (
    Flow(topic="orders", partitions=4, rate=3500),
    Flow(topic="clicks", partitions=3, rate=2000, compression="lz4"),
    Flow(topic="metrics", partitions=2, rate=1200, compression="zstd"),
    Flow(topic="payments", partitions=3, rate=1200, writers=2, transactional=True),
    Flow(topic="audit", partitions=2, rate=800, deleted=3000),
)
MOVING: Final = Flow(topic="invoices", partitions=2, rate=800, compression="lz4")
STAYING: Final = Flow(topic="refunds", partitions=2, rate=800, max_message_bytes=900_000)
MIRRORS: Final = {STORM: FLOWS, PLANNED: (MOVING,), ABORTED: (STAYING,)}
SEED: Final = 1
STEP_SECONDS: Final = 90.0


@dataclass(slots=True)
class DemoContext:
    screen: Screen
    clock: Clock
    environment: Environment
    tanist: DemoCommands

    @property
    def source(self) -> str:
        return self.environment.source.bootstrap_servers

    @property
    def destination(self) -> str:
        return self.environment.destination.bootstrap_servers

    def soon(self) -> Deadline:
        """For what a step waits for."""
        return self.clock.deadline(STEP_SECONDS)
