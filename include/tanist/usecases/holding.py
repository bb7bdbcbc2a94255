"""A failover holds its mirror: while it runs, nothing that copies metadata or positions may come in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorHeld
from tanist.domain.records import RunStatus

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView


def must_not_be_held(view: StateView, mirror: MirrorName) -> None:
    """Raises MirrorHeld while a failover of `mirror` is on record and unfinished."""
    if running := [run.plan for run in view.failovers(mirror) if run.status is RunStatus.RUNNING]:
        raise MirrorHeld(f"failover {running[0]} of mirror {mirror!r} is under way")
