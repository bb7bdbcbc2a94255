"""`tanist mirrors seed-offsets`: take over the group of a copier that committed at the source only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tanist.cli.options import MirrorArgument, Session, announcing, asking
from tanist.cli.output import emit, say
from tanist.usecases.mirrors.seeding import seed

if TYPE_CHECKING:
    from tanist.usecases.mirrors.seeding import SeededPartition

COLUMNS: Final = ("topic", "partition", "start", "may_repeat", "lost")


@asking(changes=True)
def seed_offsets(
    now: Session,
    name: MirrorArgument,
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The copier's group at the source.")],
) -> None:
    """Begin the copies of a mirror where another copier stopped, by what its group has committed at the source.

    For a mirror with mapped offsets that has copied nothing: create it with --paused, and with --into-existing where
    that copier has written to its topics; then resume it. Records that the copier has written after its last commit are
    copied again, at most as many as shown. Where the group has no commit a copy begins as it would without it.

    Example: tanist mirrors seed-offsets dr --destination west --group old-copier
    """
    found = seed(name, group, now.destination(), now.registry.connect, announcing(now, "seed"))
    rows = [_item(each) for each in found.partitions]
    if lost := sum(each.lost for each in found.partitions):
        say(f"warning: the source has deleted {lost:,} offset(s) behind the commits of {group}: see --on-loss")
    if bare := sum(each.start is None for each in found.partitions):
        say(f"warning: {group} has no commit in {bare} partition(s): their copies begin where they would without it")
    if repeats := sum(each.may_repeat for each in found.partitions):
        say(f"at most {repeats:,} record(s) are repeated, which the copier may have written after its last commit")
    item = {"mirror": found.spec.mirror, "group": group, "changed": not now.context.dry_run, "partitions": rows}
    emit([item], COLUMNS, now.as_json, rows=rows)


def _item(of: SeededPartition) -> dict[str, Any]:
    return {
        "topic": of.partition.topic,
        "partition": of.partition.partition,
        "start": of.start,
        "may_repeat": of.may_repeat,
        "lost": of.lost,
    }


def register(app: typer.Typer) -> None:
    """Add the command to `tanist mirrors`."""
    app.command()(seed_offsets)
