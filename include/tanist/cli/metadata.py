"""`tanist metadata`: topics, partitions and configs of a mirror follow the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.options import (
    ExcludeOption,
    MirrorArgument,
    Session,
    TopicsOption,
    announcing,
    asking,
    confirm,
    on_terminal,
)
from tanist.cli.output import emit, say
from tanist.domain.metadata import Outcome
from tanist.domain.names import mirror_name
from tanist.domain.selection import EVERYTHING
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.compare import diff as compare
from tanist.usecases.metadata.items import COLUMNS, metadata_item, summary
from tanist.usecases.metadata.sync import sync as bring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.metadata import MetadataRow
    from tanist.domain.names import MirrorName

app = typer.Typer(no_args_is_help=True, help="Make topics, partitions and configs of a mirror follow the source.")

ResetOption = Annotated[
    bool, typer.Option("--reset", help="Also remove configs that somebody has set on a mirror topic alone (drift).")
]


@app.command()
@asking()
def diff(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Show how the topics of a mirror differ from the source, and what `metadata sync` would change.

    Exits with 1 if there is a difference to sync or to decide, 3 if a topic could not be read.

    Example: tanist metadata diff dr --topic 'orders.*'
    """
    (destination,) = now.destinations(mirror_name(name))
    compared = compare(_request(name, topic, exclude, reset=reset), destination, now.registry.connect, now.context)
    _show(now, compared.spec.mirror, compared.rows)
    _end(compared.rows, {Outcome.DIFFERS: 1, Outcome.CONFLICT: 1, Outcome.UNKNOWN: 3})


@app.command()
@asking(changes=True, confirms=True)
def sync(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    reset: ResetOption = False,
) -> None:
    """Create missing mirror topics, add partitions, copy configs. Topics are never deleted.

    New source topics that match the mirror's filters are added. During a failover the mirror is skipped. A config that
    somebody has set on a mirror topic alone is listed as drift, and left alone unless --reset is given.
    Exits with 1 if an operator must decide, 4 if a change failed (run it again).

    Example: tanist metadata sync dr --destination west --dry-run
    """
    destination = now.destination()
    request = _request(name, topic, exclude, reset=reset)
    if on_terminal() and not now.yes and not now.context.dry_run:
        planned = compare(request, destination, now.registry.connect, now.context)
        say(summary(planned.rows))
        if any(decision.differs for decision in planned.decisions):
            confirm(f"Change this on {destination.name}?", yes=False)
    synced = bring(request, destination, now.registry.connect, announcing(now, "change"))
    _show(now, synced.spec.mirror, synced.rows)
    if not now.context.dry_run:
        _end(synced.rows, {Outcome.CONFLICT: 1, Outcome.FAILED: 4, Outcome.UNKNOWN: 4})


def _request(name: str, topic: Sequence[str] | None, exclude: Sequence[str] | None, *, reset: bool) -> MetadataRequest:
    return MetadataRequest(mirror=name, include=tuple(topic or EVERYTHING), exclude=tuple(exclude or ()), reset=reset)


def _show(now: Session, mirror: MirrorName, rows: Sequence[MetadataRow]) -> None:
    emit([metadata_item(mirror, row) for row in rows], COLUMNS, now.as_json)
    say(summary(rows))


def _end(rows: Iterable[MetadataRow], codes: dict[Outcome, int]) -> None:
    """The first of `codes` that holds for any row, else 0."""
    found = {row.verdict for row in rows}
    for verdict, code in codes.items():
        if verdict in found:
            raise typer.Exit(code)
