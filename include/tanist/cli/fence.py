"""`tanist fence`: show, lift and set source fences."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.options import ExcludeOption, MirrorArgument, Session, TopicsOption, asking, selected
from tanist.cli.output import emit, say
from tanist.domain.errors import Misconfigured
from tanist.domain.fences import FencedTopic, FenceStatus
from tanist.usecases.failover.fences import FenceRow, fences, set_again
from tanist.usecases.failover.fences import lift as lift_fences
from tanist.usecases.failover.items import FENCE_COLUMNS, fence_item

app = typer.Typer(
    no_args_is_help=True,
    help=("Show, lift and set source fences: the blocks that failovers put on producers at the source."),
)


@app.command()
@asking()
def show(now: Session, name: MirrorArgument) -> None:
    """Show every recorded source fence and whether it is in force. Exits with 3 if the source does not answer.

    Example: tanist fence show dr --destination west
    """
    clusters = now.mirror_to_read(name)
    rows = fences(clusters, now.context)
    emit([fence_item(name, row) for row in rows], FENCE_COLUMNS, now.as_json)
    if any(row.stands is None and row.source_fence.before is not None for row in rows):
        raise typer.Exit(3)


@app.command()
@asking(changes=True)
def lift(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
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

    With --promoted, name the topics by --topic if several were failed over: without its source fence, producers can
    write a topic to both clusters, until it is set again (`tanist fence set`) or added to the mirror again.

    Example: tanist fence lift dr --destination west
    """
    topics = selected(topic, exclude)
    clusters = now.mirror(name)
    after = lift_fences(clusters, now.context, of_promoted=promoted, unrecorded=unrecorded, topics=topics)
    _show(now, name, after, FenceStatus.LIFT_PENDING, "lifted")


@app.command("set")
@asking(changes=True)
def set_(now: Session, name: MirrorArgument, topic: TopicsOption = None, exclude: ExcludeOption = None) -> None:
    """Set the source fences of failed-over topics again that were lifted: producers are refused at the old source.

    One that is in force stays as it is. If the source does not answer, a fetcher sets it as soon as it does.

    Example: tanist fence set dr --destination west --topic orders
    """
    if not topic:
        raise Misconfigured("no topic is selected: give --topic REGEX")
    topics = selected(topic, exclude)
    clusters = now.mirror(name)
    after = set_again(clusters, now.context, topics)
    _show(now, name, after, FenceStatus.PENDING, "set")


def _show(now: Session, name: str, after: tuple[FencedTopic, ...], pending: FenceStatus, done: str) -> None:
    """Print the fences as they are now; exits with 4 if a fetcher has to retry one."""
    rows = [FenceRow(source_fence=each, stands=None) for each in after]
    emit([fence_item(name, row) for row in rows], FENCE_COLUMNS, now.as_json)
    owed = [each for each in after if each.status is pending and not now.context.dry_run]
    for each in owed:
        why = f": {each.reason}" if each.reason else ""
        say(f"warning: the source fence of {each.topic} could not be {done} yet; a fetcher keeps retrying{why}")
    if owed:
        raise typer.Exit(4)
