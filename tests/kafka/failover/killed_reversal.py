"""`tanist mirrors reverse` that kills or stops itself, in a process of its own.

POINT MIRROR DESTINATION [SIGNAL [RECREATE... | plan=PLAN]]. PLAN: of a failover that was approved with the reversal.
"""

from __future__ import annotations

import os
import signal
import sys

from tanist.domain.names import mirror_name
from tanist.kafka.wire.clock import SystemClock
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import reverse_mirror
from tanist.wiring.failover import is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry

POINTS = ("moving", "denied", "configured", "lifting", "lifted", "ready", "settling", "state", "forgotten", "left")
"""Of a reversal that is completed; one that is withdrawn has `withdrawing`, `fenced` and `undone`, too."""


def main() -> None:
    """With these arguments of the command line."""
    point, mirror, destination, *more = sys.argv[1:]
    plans = [each.removeprefix("plan=") for each in more[1:] if each.startswith("plan=")]
    topics = tuple(each for each in more[1:] if not each.startswith("plan="))
    request = ReversalRequest(recreate=topics, failover=plans[0] if plans else None)
    sent = signal.Signals[more[0]] if more else signal.SIGKILL

    def checkpoint(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), sent)

    clock = SystemClock()
    command = CommandContext(clock=clock, by=clock.deadline(60), holder=runner(), is_process_dead=is_process_dead)
    with ClusterRegistry(load(None, os.environ)) as registry:
        clusters = registry.open_mirror(registry.connect(destination), mirror_name(mirror), command).returned()
        reverse_mirror(request, clusters, command, checkpoint)
