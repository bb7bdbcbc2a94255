"""`tanist state`: the state topics, decoded."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tanist.cli.options import Session, asking
from tanist.cli.output import emit
from tanist.domain.errors import Misconfigured
from tanist.usecases import cluster_ids
from tanist.wiring import dump as dump_records
from tanist.wiring import follow as follow_records

app = typer.Typer(no_args_is_help=True, help="Read the state topics of a destination, where Tanist stores everything.")


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
    cluster_ids.identify((destination,), now.context)
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


@app.callback()
def root() -> None:
    """Read the state topics of a destination, where Tanist stores everything."""
