"""`tanist state rebuild`: the state of a mirror from its logs alone."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.mirrors import HolesOption, OnLossOption
from tanist.cli.options import ExcludeOption, Session, TopicsOption, announcing, asking
from tanist.cli.output import emit, say, stages
from tanist.usecases.mirrors.create import CreateRequest
from tanist.usecases.state.rebuild import RebuildTools
from tanist.usecases.state.rebuild import rebuild as rebuild_state

REBUILD_SECONDS = 300.0
REBUILD_COLUMNS = ("mirror", "topic", "copy_starts", "state")


@asking(changes=True, seconds=REBUILD_SECONDS)
def rebuild(
    now: Session,
    *,
    source: Annotated[str, typer.Option("--source", "-s", metavar="NAME", help="The cluster that was mirrored.")],
    mirror: Annotated[str, typer.Option("--mirror", metavar="NAME", help="The name of the mirror.")],
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    holes: HolesOption = None,
    on_loss: OnLossOption = None,
) -> None:
    """Register a mirror again whose state was lost, from its mirror topics. Nothing is copied until a person says so.

    Every log must be a true prefix of the source's; its producer ids are read from it. All topics are STOPPED until
    `tanist mirrors resume`. A topic that was failed over is refused by name: leave it out with --exclude.

    Example: tanist state rebuild --source east --destination west --mirror dr --topic 'orders.*'
    """
    destination = now.destination()
    request = CreateRequest(
        mirror=mirror, include=tuple(topic or ()), exclude=tuple(exclude or ()), holes=holes, on_loss=on_loss
    )
    tools = RebuildTools(
        prefixes=now.registry.log_prefixes(source, destination),
        inspection=now.registry.log_inspection(destination),
        say=stages(now.context.clock),
    )
    done = rebuild_state(request, now.registry.connect(source), destination, tools, announcing(now, "rebuild"))
    for warning in done.warnings:
        say(f"warning: {warning}")
    if not done.changed:
        say(f"mirror {mirror} exists already: nothing was changed")
    elif not now.context.dry_run:
        resume = f"tanist mirrors resume {mirror} --destination {destination.name} --topic '.*'"
        say(f"mirror {mirror} is STOPPED: compare both clusters, then `{resume}`")
    items = [
        {
            "mirror": each.mirror,
            "topic": each.topic,
            "copy_starts": list(each.copy_starts),
            "state": each.desired,
            "promotion_epoch": each.promotion_epoch,
            "producer_id": done.spec.data_id,
            "changed": done.changed,
        }
        for each in done.topics
    ]
    cells = [
        item | {"copy_starts": ", ".join(map(str, each.copy_starts))}
        for item, each in zip(items, done.topics, strict=True)
    ]
    emit(items, REBUILD_COLUMNS, now.as_json, rows=cells)


def register(app: typer.Typer) -> None:
    """Add the command to `tanist state`."""
    app.command()(rebuild)
