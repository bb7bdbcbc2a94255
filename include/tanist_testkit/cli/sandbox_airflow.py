"""`tanist sandbox airflow`: a whole Airflow on this machine. Imports inside functions keep `tanist --help` light."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tanist.cli.output import Format, JsonOption, OutputOption, emit, guard, none, say
from tanist_testkit.sandbox.fleet import CONFIG

if TYPE_CHECKING:
    from tanist_testkit.sandbox.airflow.service import Airflow

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="A whole, throw-away Airflow on this machine, which knows the clusters of the sandbox.",
)

COLUMNS: Final = ("component", "pid", "alive", "healthy", "url")
HERE: Final = Path("sandbox")

DirOption = Annotated[
    Path, typer.Option("--dir", help="The directory of the sandbox; Airflow lives in `airflow` there.")
]
DagsOption = Annotated[Path | None, typer.Option("--dags", help="DAG files [default: those of this project]")]
PluginsOption = Annotated[Path | None, typer.Option("--plugins", help="Plugins [default: those of this project]")]


@app.command()
def up(
    *,
    dags: DagsOption = None,
    plugins: PluginsOption = None,
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Start Airflow and wait until it is healthy. Again: brings up to date what it knows of the clusters.

    Each cluster of the directory's tanist.toml becomes a connection of its name, of type kafka, and may hold mirrors;
    `op` asks for a failover, `op2` approves it.

    Example: tanist sandbox up && tanist sandbox airflow up
    """
    from tanist.settings import Settings, load  # noqa: PLC0415
    from tanist_testkit.sandbox.airflow import commands  # noqa: PLC0415
    from tanist_testkit.sandbox.airflow.connections import connections, variables  # noqa: PLC0415
    from tanist_testkit.sandbox.airflow.home import USERS, AirflowSpec  # noqa: PLC0415

    as_json = json or output is Format.JSON
    with guard(as_json):
        spec = AirflowSpec(
            dags=dags.resolve() if dags else commands.folder("dags"),
            plugins=plugins.resolve() if plugins else commands.folder("plugins"),
        )
        config = directory.resolve() / CONFIG  # the components run elsewhere: names of files in it become absolute
        settings = load(config, os.environ) if config.exists() else Settings(f"no {config}")
        known = variables(settings) if settings.clusters else {}
        started = commands.up(directory, spec, connections(settings), known, say)
        airflow = commands.find(directory)
        assert airflow is not None  # noqa: S101 -- it has just been started
        say(f"{'up' if started else 'already up'}: {airflow.url}; users: {', '.join(USERS)}")
        say(f"their passwords: {airflow.passwords}")
        _show(airflow, as_json)


@app.command()
def down(
    directory: DirOption = HERE,
    delete: Annotated[bool, typer.Option("--delete", help="Remove it and its database as well.")] = False,
) -> None:
    """Stop Airflow; its database stays for the next `up` unless --delete is given."""
    from tanist_testkit.sandbox.airflow import commands  # noqa: PLC0415

    with guard():
        say("down" if commands.down(directory, delete=delete, say=say) else "nothing was running")


@app.command()
def status(
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Show every part of Airflow, as it is now and as Airflow says that it is."""
    from tanist_testkit.sandbox.airflow import commands  # noqa: PLC0415

    as_json = json or output is Format.JSON
    with guard(as_json):
        if found := commands.find(directory):
            _show(found, as_json)
        else:
            none(f"no Airflow in {directory}: start one with `tanist sandbox airflow up`", as_json)


def _show(airflow: Airflow, as_json: bool) -> None:
    shared = {"url": airflow.url, "passwords_file": str(airflow.passwords)}
    items: list[dict[str, Any]] = [
        {"component": part.component, "pid": part.pid, "alive": part.alive, "healthy": part.healthy, **shared}
        for part in airflow.parts()
    ]
    emit(items, COLUMNS, as_json)
