"""The last translation of consumer groups: while the mirror can still be trusted, before anybody writes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failover.facts import SourceState
from tanist.usecases.failover.work import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """One bad group never blocks the rest: what could not be moved is listed."""
    asked = work.facts.source is not SourceState.SILENT
    moved = work.clusters.move_groups(work.intent.names, work.run.by, ask_source=asked)
    work.tools.checkpoint("groups:moved")
    work.mark("groups")
    return Done({"rows": [dict(row) for row in moved.rows], "problems": list(moved.problems)})
