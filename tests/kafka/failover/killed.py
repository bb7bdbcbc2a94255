"""`tanist failover run` that kills itself, in a process of its own: POINT MIRROR PLAN EVIDENCE [UNTIL].

The mirror's destination is west, or what the environment names.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tanist.domain.names import mirror_name
from tanist.kafka.adapters import producer_fencing
from tanist.kafka.wire.clock import SystemClock
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.failover.run import run
from tanist.usecases.failover.tools import Timeouts, Tools
from tanist.wiring.failover import Folder, is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry
from tests.fakes.halves import Halves


def main() -> None:
    """With these arguments of the command line."""
    _run(*sys.argv[1:])


def _run(point: str, mirror: str, plan: str, evidence: str, until: str | None = None) -> None:
    def checkpoint(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    producer_fencing.MOST_AT_ONCE = 500  # so that a reserve takes several requests, and a run can die between them
    clock = SystemClock()
    command = CommandContext(clock=clock, by=clock.deadline(60))
    tools = Tools(
        patience=Timeouts(proof=0.3, drain=20, budget=2),
        sink=Folder(Path(evidence)),
        runner=runner(),
        is_process_dead=is_process_dead,
        checkpoint=checkpoint,
    )
    with ClusterRegistry(load(None, os.environ)) as world:
        destination = world.connect(os.environ.get("TANIST_DESTINATION", "west"))
        real = world.open_mirror(destination, mirror_name(mirror), command)
        halves = Halves(real.destination.producer_fencing, checkpoint)
        clusters = replace(real, destination=replace(real.destination, producer_fencing=halves))
        run(plan, clusters, tools, command, until=until, although_it_answers=True)
