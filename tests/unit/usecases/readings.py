"""One reading of a destination in memory, as `tanist status` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.command import Silence
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.status.observe import StatusContext
from tests.builders import a_command
from tests.fakes.cluster import nowhere, pair_with

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.domain.records import MirrorSpec
    from tanist.usecases.command import CommandContext
    from tests.fakes.cluster import MemoryCluster
    from tests.fakes.failover import GuardedCluster


def clusters(spec: MirrorSpec, source: MemoryCluster | TanistError, destination: MemoryCluster) -> OpenMirror:
    """Both ends of a mirror."""
    return OpenMirror(
        spec=spec,
        source=source if isinstance(source, Exception) else source.side(),
        destination=destination.side(),
        pair=pair_with(),
        from_source=nowhere,
    )


def reading(
    source: GuardedCluster | TanistError, destination: GuardedCluster, context: CommandContext | None = None
) -> StatusContext:
    """Of a destination whose mirrors all have one source."""
    context = context or a_command()
    return StatusContext(
        destination=destination.side(),
        silence=Silence(context.clock),
        clusters=lambda spec: clusters(spec, source, destination),
        context=context,
    )
