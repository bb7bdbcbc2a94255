"""`tanist state restore|rebuild` that kills itself, in a process of its own: POINT FILE, or POINT MIRROR TOPIC."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tanist.kafka.wire.clock import SystemClock
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.mirrors.create import CreateRequest
from tanist.usecases.state.found_state import RebuildTools
from tanist.usecases.state.rebuild import rebuild
from tanist.usecases.state.restore import RestoreTools, restore
from tanist.wiring import state_file
from tanist.wiring.registry import ClusterRegistry

POINTS = ("topics", "offsets", "state")
REBUILD_POINTS = ("topics", "configs", "state")


def main() -> None:
    """With these arguments of the command line."""
    point, *what = sys.argv[1:]

    def checkpoint(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    clock = SystemClock()
    command = CommandContext(clock=clock, by=clock.deadline(60))
    with ClusterRegistry(load(None, os.environ)) as registry:
        west = registry.connect("west")
        inspection = registry.log_inspection(west)
        if len(what) == 1:
            restoring = RestoreTools(
                source_of=registry.source, moved_to=registry.moved_to, inspection=inspection, checkpoint=checkpoint
            )
            restore(state_file.read(Path(what[0])), west, restoring, command)
        else:
            mirror, topic = what
            rebuilding = RebuildTools(
                prefixes=registry.log_prefixes("east", west),
                inspection=inspection,
                paired=registry.log_pairs("east", west),
                checkpoint=checkpoint,
            )
            request = CreateRequest(mirror=mirror, include=(topic,))
            rebuild(request, registry.connect("east"), west, rebuilding, command)
