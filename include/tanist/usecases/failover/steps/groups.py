"""The last translation of consumer groups: while the mirror can still be trusted, before anybody writes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failover.facts import SourceState
from tanist.usecases.failover.context import GroupsMoved
from tanist.usecases.failover.step import Done
from tanist.usecases.groups.items import position_item

if TYPE_CHECKING:
    from tanist.usecases.failover.step import StepContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult


def do(context: StepContext) -> Done:
    """One bad group never blocks the rest: what could not be moved is listed.

    The mark is good for the call that made it: consumers of the source go on committing.
    """
    asked = context.facts.source.state is not SourceState.SILENT
    moved = context.clusters.move_groups(
        context.intent.names, context.intent.groups, context.by, context.session.confirm, ask_source=asked
    )
    context.checkpoint("groups:moved")
    context.session.mark("groups")
    rows = [dict(row) for row in moved.rows]
    return Done({"rows": rows, "problems": list(moved.problems), "mismatches": list(moved.mismatches)})


def moved_by(synced: GroupSyncResult) -> GroupsMoved:
    """A synchronisation as the evidence tells it."""
    return GroupsMoved(
        rows=tuple(position_item(row) for row in synced.rows),
        problems=tuple(map(_describe, synced.problems)),
        mismatches=tuple(map(_describe, synced.mismatches)),
    )


def _describe(row: PositionRow) -> str:
    return f"{row.group} on {row.partition}: {row.reason}"
