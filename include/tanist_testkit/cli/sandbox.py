"""`tanist sandbox`: real clusters on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tanist.cli.output import Format, JsonOption, OutputOption, emit, guard, none, say
from tanist_testkit.cli import sandbox_airflow
from tanist_testkit.sandbox.fleet import Fleet
from tanist_testkit.sandbox.spec import MOST_BROKERS, ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist_testkit.sandbox.cluster import SandboxCluster

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Run throw-away Apache Kafka clusters on this machine.",
)
app.add_typer(sandbox_airflow.app, name="airflow")

COLUMNS: Final = ("cluster", "broker", "pid", "port", "alive", "cluster_id")

DirOption = Annotated[Path, typer.Option("--dir", help="Where the clusters live; tanist.toml is written there.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The cluster, as `status` shows it.")]
BrokerOption = Annotated[int | None, typer.Option("--broker", help="One broker by id; by default the whole cluster.")]
NamesOption = Annotated[list[str] | None, typer.Option("--name", help="A cluster; repeatable (default: east, west).")]
BrokersOption = Annotated[int, typer.Option(min=1, max=MOST_BROKERS, help="Brokers per cluster.")]
HERE: Final = Path("sandbox")


@app.command()
def up(
    *,
    name: NamesOption = None,
    brokers: BrokersOption = 1,
    authorizer: Annotated[
        bool, typer.Option("--authorizer", help="SASL logins, and ACLs that deny by default.")
    ] = False,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, with a certificate of a throw-away authority.")] = False,
    client_certificates: Annotated[
        bool, typer.Option("--client-certificates", help="TLS and ACLs; users log in with certificates.")
    ] = False,
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Start clusters and write a tanist.toml that names them. Again: does nothing when they are up.

    Example: tanist sandbox up --name east --name west --brokers 3 --authorizer
    """
    as_json = json or output is Format.JSON
    with guard(as_json):
        specs = [
            ClusterSpec(
                name=each,
                brokers=brokers,
                authorizer=authorizer or client_certificates,
                tls=tls or client_certificates,
                client_certificates=client_certificates,
            )
            for each in dict.fromkeys(name or ("east", "west"))
        ]
        fleet = Fleet(directory)
        started = fleet.up(specs, say)
        say(f"{'up' if started else 'already up'}; configuration: {fleet.config}")
        _show(fleet.clusters(), as_json)


@app.command()
def down(
    directory: DirOption = HERE,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the clusters and their data as well.")] = False,
) -> None:
    """Stop every cluster of the directory; their data stay for the next `up` unless --delete is given."""
    with guard():
        say("down" if Fleet(directory).down(delete=delete, say=say) else "nothing was running")


@app.command()
def status(
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Show every cluster of the directory and its brokers, as they are now."""
    as_json = json or output is Format.JSON
    with guard(as_json):
        if clusters := Fleet(directory).clusters():
            _show(clusters, as_json)
        else:
            none(f"no clusters in {directory}: start some with `tanist sandbox up`", as_json)


@app.command()
def kill(
    name: NameArgument,
    broker: BrokerOption = None,
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Kill a broker, or a whole cluster, as a power cut would (SIGKILL)."""
    as_json = json or output is Format.JSON
    with guard(as_json):
        _show([Fleet(directory).kill(name, broker)], as_json)


@app.command()
def start(
    name: NameArgument,
    broker: BrokerOption = None,
    directory: DirOption = HERE,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Start what was killed or stopped, on the same data and ports."""
    as_json = json or output is Format.JSON
    with guard(as_json):
        _show([Fleet(directory).start(name, broker, say)], as_json)


def _show(clusters: Iterable[SandboxCluster], as_json: bool) -> None:
    items = [_item(cluster) for cluster in clusters]
    emit(items, COLUMNS, as_json, rows=[row for item in items for row in _rows(item)])


def _item(cluster: SandboxCluster) -> dict[str, Any]:
    return {
        "cluster": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers,
        "cluster_id": cluster.cluster_id,
        "brokers": [{"id": b.id, "pid": b.pid, "port": b.port, "alive": b.alive} for b in cluster.brokers],
    }


def _rows(item: dict[str, Any]) -> list[dict[str, Any]]:
    shared = {"cluster": item["cluster"], "cluster_id": item["cluster_id"]}
    return [{**shared, **broker, "broker": broker["id"]} for broker in item["brokers"]]


if __name__ == "__main__":
    app()
