"""`tanist demo`: the main job, told and counted on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tanist.cli.options import YesOption, confirm
from tanist.cli.output import REFUSED, Format, JsonOption, OutputOption, emit, guard
from tanist.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.demo.promises import Promise

WHAT = (
    "Starts two Kafka clusters (6 Java processes, about 2 GB of memory, ports of 127.0.0.1 only) for up to two minutes"
)


def demo(
    *,
    yes: YesOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything up at the end, and say how to stop it.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where the clusters live (default: a temporary directory).")
    ] = None,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Mirror a cluster while brokers and workers are killed, compare every record, then fail over: planned, and not.

    Ends with a table of promises, what was seen, and how to check each by hand; exit code 1 if one was broken.

    Example: tanist demo --yes --keep
    """
    from tanist.demo.screen import Screen  # noqa: PLC0415 -- `tanist --help` needs no client library
    from tanist.demo.story import tell  # noqa: PLC0415

    as_json = json or output is Format.JSON
    with guard(as_json):
        confirm(f"{WHAT}. Go on?", yes=yes)
        clock = SystemClock()
        screen = Screen(Console(stderr=True), clock)

        def show(promises: Sequence[Promise]) -> None:
            if as_json:
                emit([promise.item() for promise in promises], (), True)
            else:
                Screen(Console(file=sys.stdout), clock).table(promises)

        promises = tell(screen, clock, show, directory=directory, keep=keep)
        kept = sum(promise.ok for promise in promises)
        screen.note(f"{kept} of {len(promises)} promises kept, in {screen.elapsed:.0f} s")
    if kept < len(promises):
        raise typer.Exit(REFUSED)
