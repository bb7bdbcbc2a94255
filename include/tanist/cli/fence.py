"""`tanist fence`: show and lift source fences."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.failover import opened
from tanist.cli.options import MirrorArgument, Session, asking
from tanist.cli.output import emit, say
from tanist.domain.fences import FenceStatus
from tanist.usecases.failover.abort import FenceRow, fences
from tanist.usecases.failover.abort import lift as lift_fences
from tanist.usecases.failover.items import FENCE_COLUMNS, fence_item

app = typer.Typer(
    no_args_is_help=True,
    help=("Show and lift source fences: the blocks that failovers put on producers at the source."),
)


@app.command()
@asking()
def show(now: Session, name: MirrorArgument) -> None:
    """Show every recorded source fence and whether it is in force. Exits with 3 if the source does not answer.

    Example: tanist fence show dr --destination west
    """
    with opened(now, name) as clusters:
        rows = fences(clusters, now.context)
    emit([fence_item(name, row) for row in rows], FENCE_COLUMNS, now.as_json)
    if any(row.stands is None and row.source_fence.before is not None for row in rows):
        raise typer.Exit(3)


@app.command()
@asking(changes=True)
def lift(
    now: Session,
    name: MirrorArgument,
    promoted: Annotated[
        bool, typer.Option("--promoted", help="Also for failed-over topics: producers can then write to both clusters.")
    ] = False,
    unrecorded: Annotated[
        bool,
        typer.Option(
            "--unrecorded",
            help="Also a source fence without a record, which another operator's DENY rule may look like.",
        ),
    ] = False,
) -> None:
    """Lift the source fences in force and restore exactly the ACLs and configs that were stored before.

    Example: tanist fence lift dr --destination west
    """
    with opened(now, name) as clusters:
        after = lift_fences(clusters, now.context, of_promoted=promoted, unrecorded=unrecorded)
    rows = [FenceRow(source_fence=each, stands=None) for each in after]
    emit([fence_item(name, row) for row in rows], FENCE_COLUMNS, now.as_json)
    owed = [each.topic for each in after if each.status is FenceStatus.LIFT_PENDING]
    for topic in owed:
        say(f"warning: the source fence of {topic} could not be lifted yet; a fetcher keeps retrying")
    if owed:
        raise typer.Exit(4)
