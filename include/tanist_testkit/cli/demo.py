"""`tanist demo`: the main job, told and counted on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tanist.cli.options import YesOption, confirm
from tanist.cli.output import REFUSED, Format, JsonOption, OutputOption, emit, guard
from tanist.domain.errors import Misconfigured
from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist_testkit.demo.chapters import DemoOptions
    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.sandbox.airflow.home import AirflowSpec

CLUSTERS = "two Kafka clusters (6 Java processes, 2 GB of memory)"
AIRFLOW = "an Airflow (1 GB)"
MINUTES = {True: "some", False: "three"}
WHERE = "on ports of 127.0.0.1 only"


def demo(
    *,
    yes: YesOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything up at the end, and say how to stop it.")
    ] = False,
    airflow: Annotated[
        bool,
        typer.Option(
            "--airflow/--no-airflow",
            help="Let failovers go through Airflow, and Spark compare; or the short way (3 minutes).",
        ),
    ] = True,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Approve failovers yourself, in Airflow: the demo says where, and waits."),
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where everything lives (default: a temporary directory).")
    ] = None,
    records: Annotated[
        int, typer.Option("--records", min=1000, metavar="N", help="Write at least so many before they are compared.")
    ] = 100_000,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Mirror a cluster while brokers and workers are killed, compare every record, fail over, and back.

    Ends with a table of promises, what was seen, and how to check each by hand; exit code 1 if one was broken.

    Example: tanist demo --yes --keep
    """
    from tanist_testkit.demo.chapters import DemoOptions  # noqa: PLC0415 -- `tanist --help` needs no client library

    as_json = json or output is Format.JSON
    with guard(as_json):
        if interactive and not airflow:
            raise typer.BadParameter("--interactive needs Airflow, where failovers are approved")
        spec = _airflow() if airflow else None
        started = f"{CLUSTERS} and {AIRFLOW}" if airflow else CLUSTERS
        confirm(f"Starts {started}, {WHERE}, for {MINUTES[airflow]} minutes. Go on?", yes=yes)
        how = DemoOptions(airflow=spec, interactive=interactive, directory=directory, keep=keep, records=records)
        promises = _promises(how, as_json)
    if not all(promise.ok for promise in promises):
        raise typer.Exit(REFUSED)


def _promises(how: DemoOptions, as_json: bool) -> Sequence[Promise]:
    """The promises, which are shown before what was to be seen is gone."""
    from tanist_testkit.demo.chapters import run_demo  # noqa: PLC0415
    from tanist_testkit.screen import Screen  # noqa: PLC0415 -- as above

    clock = SystemClock()
    screen = Screen(Console(stderr=True), clock)
    with run_demo(screen, clock, how) as promises:
        if as_json:
            emit([promise._asdict() for promise in promises], (), True)
        else:
            _show(Console(), promises)
    kept = sum(promise.ok for promise in promises)
    screen.note(f"{kept} of {len(promises)} promises kept, in {screen.elapsed:.0f} s")
    return promises


def _show(console: Console, promises: Sequence[Promise]) -> None:
    """The promises, numbered, and below how to check each by hand."""
    table = Table(title="What was promised", title_justify="left")
    for name in ("", "promise", "expected", "observed", ""):
        table.add_column(name, overflow="fold")
    for number, each in enumerate(promises, 1):
        mark = "[green]✓[/green]" if each.ok else "[bold red]✗[/bold red]"
        table.add_row(str(number), escape(each.promise), escape(each.expected), escape(each.observed), mark)
    console.print(table)
    console.print("By hand, after --keep, with kcat or Kafka's own tools:")
    for command in dict.fromkeys(each.by_hand for each in promises):
        numbers = ", ".join(str(n) for n, each in enumerate(promises, 1) if each.by_hand == command)
        console.print(f"[dim]{numbers:>10}  {escape(command)}[/dim]", highlight=False, soft_wrap=True)


def _airflow() -> AirflowSpec:
    """With the DAGs and the plugin of this project. Raises Misconfigured."""
    from tanist_testkit.sandbox.airflow.commands import folder  # noqa: PLC0415
    from tanist_testkit.sandbox.airflow.home import AirflowSpec  # noqa: PLC0415

    try:
        return AirflowSpec(dags=folder("dags"), plugins=folder("plugins"))
    except Misconfigured as why:
        raise Misconfigured(f"{why.reason}; or `tanist demo --no-airflow`") from why
