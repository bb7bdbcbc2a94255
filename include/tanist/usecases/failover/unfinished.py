"""The run that holds a mirror, if there is one: whoever comes next goes on with it, unless somebody is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import RunUnderWay
from tanist.usecases.failover.observe import Observer

if TYPE_CHECKING:
    from tanist.domain.records import FailoverRun
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror

WATCH_SECONDS: Final = 10.0
"""A run that goes step by step, each in another process, is silent for some seconds between two of them."""
_LOOK_SECONDS: Final = 0.5


def unfinished(clusters: OpenMirror, command: CommandContext) -> FailoverRun | None:
    """The unfinished run of this mirror; None: there is none."""
    observer = Observer(clusters=clusters, context=command)
    return observer.view().unfinished(clusters.spec.mirror)


def left_alone(clusters: OpenMirror, command: CommandContext) -> FailoverRun | None:
    """The unfinished run of this mirror that nobody is at work on; None: there is none.

    Raises:
        RunUnderWay: somebody is, or has been within the seconds that we watched.
    """
    observer = Observer(clusters=clusters, context=command)
    first = observer.view().unfinished(clusters.spec.mirror)
    until = command.clock.deadline(WATCH_SECONDS)
    while first is not None and until.left(command.clock.monotonic()):
        command.clock.wait(_LOOK_SECONDS)
        now = observer.view().unfinished(clusters.spec.mirror)
        if now is not None and (now.plan, now.at) != (first.plan, first.at):
            raise RunUnderWay(f"{now.runner or 'another process'} is running plan {now.plan}")
    return observer.view().unfinished(clusters.spec.mirror)
