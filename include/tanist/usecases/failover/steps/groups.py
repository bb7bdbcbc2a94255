"""The last translation of consumer groups: while the mirror can still be trusted, before anybody writes here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.failover.facts import SourceState
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from tanist.usecases.failover.step import StepContext
    from tanist.usecases.failover.tools import GroupsMoved

_PROVE_SECONDS: Final = 2.0
"""Time limit of comparing records: offsets are committed without a proof rather than late."""


def do(context: StepContext) -> Done:
    """One bad group never blocks the rest: what could not be moved is listed.

    The mark is good for the call that made it: consumers of the source go on committing.
    """
    moved = move(context, ask_source=context.facts.source.state is not SourceState.SILENT)
    context.checkpoint("groups:moved")
    context.session.mark("groups")
    rows = [dict(row) for row in moved.rows]
    return Done({"rows": rows, "problems": list(moved.problems), "mismatches": list(moved.mismatches)})


def move(context: StepContext, *, ask_source: bool) -> GroupsMoved:
    """Translate and commit the positions of the groups of the plan."""
    chosen = Chosen(groups=tuple(context.intent.groups), topics=frozenset(context.intent.names), ask_source=ask_source)
    request = SyncRequest(chosen=chosen, prove_seconds=_PROVE_SECONDS, confirm=context.session.confirm)
    return context.move_groups(context.clusters, request, replace(context.command, by=context.by))
