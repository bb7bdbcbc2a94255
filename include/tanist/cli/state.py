"""`tanist state`: the state topics, decoded, exported, restored, and rebuilt from the logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.mirror_following import RenameOption
from tanist.cli.mirror_settings import HolesOption, OnLossOption
from tanist.cli.options import ExcludeOption, Session, TopicsOption, announcing, asking
from tanist.cli.output import emit, say, stages
from tanist.domain.errors import Misconfigured
from tanist.domain.records import OffsetMode
from tanist.usecases.mirror import identify
from tanist.usecases.mirrors.create import CreateRequest
from tanist.usecases.state.found_state import RebuildTools
from tanist.usecases.state.rebuild import rebuild as rebuild_state
from tanist.usecases.state.restore import RestoreTools
from tanist.usecases.state.restore import restore as restore_state
from tanist.wiring import state_file
from tanist.wiring.dump import dump as dump_records
from tanist.wiring.dump import follow as follow_records

if TYPE_CHECKING:
    from tanist.usecases.state.restore import RestoredMirror


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
    rename: RenameOption = None,
) -> None:
    """Register a mirror again whose state was lost, from its mirror topics. Nothing is copied until a person says so.

    Every log must be a true prefix of the source's; its producer ids are read from it. A mirror with mapped offsets is
    known by its own positions, and its offset map is found again in both logs. All topics are STOPPED until
    `tanist mirrors resume`. A topic that was failed over is refused by name: leave it out with --exclude.

    Example: tanist state rebuild --source east --destination west --mirror dr --topic 'orders.*'
    """
    destination = now.destination()
    request = CreateRequest(
        mirror=mirror,
        include=tuple(topic or ()),
        exclude=tuple(exclude or ()),
        holes=holes,
        on_loss=on_loss,
        offsets=OffsetMode.MAPPED if rename else OffsetMode.IDENTICAL,
        rename=tuple(rename or ()),
    )
    tools = RebuildTools(
        prefixes=now.registry.log_prefixes(source, destination),
        inspection=now.registry.log_inspection(destination),
        paired=now.registry.log_pairs(source, destination),
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


app = typer.Typer(
    no_args_is_help=True,
    help="Read, save and restore the state topics of a destination, where Tanist stores everything.",
)
RESTORE_SECONDS = 120.0
EXPORT_COLUMNS = ("file", "cluster", "cluster_id", "mirrors", "records")
RESTORE_COLUMNS = ("mirror", "topics", "promoted", "records", "changed")


@app.command()
@asking()
def dump(
    now: Session,
    key: Annotated[str, typer.Option("--key", metavar="PREFIX", help="Only keys with this prefix.")] = "",
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help=("Print from the beginning and keep following, until Ctrl-C or --timeout.")
        ),
    ] = False,
) -> None:
    """Print every record as one JSON object per line; a record that cannot be decoded is printed with the reason.

    Example: tanist state dump --destination west --key partition/dr/ --follow
    """
    found = now.destinations(None)
    if len(found) != 1:
        names = ", ".join(side.name for side in found) or "none"
        raise Misconfigured(f"several clusters have state topics: {names}; choose one with --destination")
    (destination,) = found
    identify((destination,), now.context)
    if follow:
        for item in follow_records(now.registry, destination, key, now.context, now.until):
            print(json.dumps(item), flush=True)
        return
    items = list(dump_records(now.registry, destination, key, now.context))
    if now.as_json:
        emit(items, (), as_json=True)
    else:
        for item in items:
            print(json.dumps(item))


@app.command()
@asking(seconds=RESTORE_SECONDS)
def export(
    now: Session,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="The file to write (default: standard output).")
    ] = None,
) -> None:
    """Save the state topics of a destination as a versioned file, from which `tanist state restore` reads them.

    It has no secrets. Approvals are not in it, nor are heartbeats of workers.

    Example: tanist state export --destination west --file west-state.jsonl
    """
    if now.as_json and file is None:
        raise Misconfigured("--json reports on standard output, where the records would go: give --file FILE")
    saved = state_file.save(now.registry, now.destination(), now.context)
    mirrors = list(saved.of_mirrors("__mirror_state"))
    if file is None:
        for line in state_file.lines(saved):
            print(line)
        return
    state_file.write(saved, file)
    item = {
        "file": str(file),
        "cluster": saved.cluster,
        "cluster_id": saved.cluster_id,
        "exported_at_ms": saved.exported_at,
        "mirrors": mirrors,
        "records": saved.count,
    }
    emit([item], EXPORT_COLUMNS, now.as_json, rows=[item | {"mirrors": " ".join(mirrors) or None}])


@app.command()
@asking(changes=True, seconds=RESTORE_SECONDS)
def restore(
    now: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `tanist state export` has written.")],
    *,
    mirror: Annotated[
        list[str] | None, typer.Option("--mirror", metavar="NAME", help="Only this mirror (default: all); repeatable.")
    ] = None,
    without_source: Annotated[
        bool,
        typer.Option(
            "--without-source",
            help="Do not ask the sources whether another cluster took over from them since the export.",
        ),
    ] = False,
) -> None:
    """Write the state of lost mirrors back, from a file of the same cluster. Nothing is copied until a person says so.

    All topics are STOPPED until `tanist mirrors resume`. A topic that was failed over since the export has left its
    mirror for good. A mirror that the cluster has with other records is refused, and nothing is changed.

    Example: tanist state restore west-state.jsonl --destination west
    """
    saved, destination = state_file.read(file), now.destination()
    saved = saved.only(mirror) if mirror else saved
    tools = RestoreTools(
        source_of=now.registry.source,
        moved_to=now.registry.moved_to,
        inspection=now.registry.log_inspection(destination),
        ask_source=not without_source,
        say=stages(now.context.clock),
    )
    restored = restore_state(saved, destination, tools, announcing(now, "restore"))
    for each in restored:
        _say_restored(each, dry_run=now.context.dry_run)
    items = [
        {
            "mirror": each.mirror,
            "topics": list(each.waiting()),
            "promoted": sorted(each.promoted),
            "records": len(each.records),
            "changed": each.changed,
        }
        for each in restored
    ]
    cells = [
        item | {"topics": len(each.waiting()), "promoted": len(each.promoted)}
        for item, each in zip(items, restored, strict=True)
    ]
    emit(items, RESTORE_COLUMNS, now.as_json, rows=cells)


def _say_restored(mirror: RestoredMirror, *, dry_run: bool) -> None:
    for warning in mirror.warnings:
        say(f"warning: {warning}")
    if not mirror.changed:
        say(f"mirror {mirror.mirror} is as in the file: nothing was changed")
    elif mirror.waiting() and mirror.spec is not None and not dry_run:
        say(
            f"mirror {mirror.mirror} is STOPPED: compare both clusters, then "
            f"`tanist mirrors resume {mirror.mirror} --destination {mirror.spec.destination} --topic '.*'`"
        )


app.command()(rebuild)


@app.callback()
def root() -> None:
    """Read, save and restore the state topics of a destination, where Tanist stores everything."""
