"""One reading of a destination in memory, as `tanist status` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.context import FailoverContext, GroupsMoved
from tanist.usecases.silence import Silence
from tanist.usecases.status.observe import StatusContext
from tests.unit.usecases.commands import a_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.usecases.command import CommandContext
    from tests.fakes.failover import GuardedCluster


def _nobody(
    topics: Sequence[str], groups: Sequence[str], by: Deadline, confirm: Callable[[], None], *, ask_source: bool
) -> GroupsMoved:
    raise AssertionError(f"a reading moves no groups: {topics}, {groups}, {by}, {confirm}, {ask_source}")


def clusters(spec: MirrorSpec, source: GuardedCluster | TanistError, destination: GuardedCluster) -> FailoverContext:
    """Both ends of a mirror."""
    return FailoverContext(
        spec=spec,
        source=source if isinstance(source, Exception) else source.side(),
        destination=destination.side(),
        move_groups=_nobody,
    )


def reading(
    source: GuardedCluster | TanistError, destination: GuardedCluster, context: CommandContext | None = None
) -> StatusContext:
    """Of a destination whose mirrors all have one source."""
    context = context or a_run()
    return StatusContext(
        destination=destination.side(),
        silence=Silence(context.clock),
        clusters=lambda spec: clusters(spec, source, destination),
        context=context,
    )
