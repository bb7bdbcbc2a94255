"""`tanist fetcher`: the service that copies records."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.options import Session, asking
from tanist.wiring import run_fetcher
from tanist.wiring.logs import log_to_stderr

app = typer.Typer(no_args_is_help=True, help="Run the service that copies records. Start as many as you need.")


@app.command()
@asking(timed=False)
def run(
    now: Session,
    worker: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Name of this worker (default: host name and process id).")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", metavar="P", help="Port for Prometheus metrics.")
    ] = None,
) -> None:
    """Copy the topics of all mirrors of a destination until SIGTERM or Ctrl-C.

    All workers of one destination share its partitions.

    Example: tanist fetcher run --destination west --metrics-port 9405
    """
    log_to_stderr()
    code = run_fetcher(now.registry, now.destination().name, worker=worker, metrics_port=metrics_port)
    if code:
        raise typer.Exit(code)


@app.callback()
def root() -> None:
    """Run the service that copies records. Start as many as you need."""
