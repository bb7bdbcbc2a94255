"""The status of mirrors, wired to their clusters."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.composition.failover import standing
from tanist.usecases import status

if TYPE_CHECKING:
    from tanist.composition.world import World
    from tanist.domain.names import MirrorName
    from tanist.usecases.sides import Run, Side


def look(world: World, destination: Side, mirror: MirrorName | None, run: Run) -> tuple[status.Seen, ...]:
    """One mirror, or all of a destination, with everything that `tanist status` asks.

    Raises:
        UnknownMirror, UnsafeStateTopic, and what the destination answers if it cannot be read.
    """
    with closing(world.describer(destination)) as describer, standing(world, destination, run) as more:
        return status.observe(describer, mirror, run, more)
