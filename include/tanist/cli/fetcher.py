"""`tanist fetcher`: the persistent service that copies."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.options import Session, asking
from tanist.wiring import run_fetcher
from tanist.wiring.logs import log_to_stderr

app = typer.Typer(no_args_is_help=True, help="The persistent service that copies. Run as many as you like.")


@app.command()
@asking(timed=False)
def run(
    now: Session,
    worker: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Name of this worker (default: host and process).")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", metavar="P", help="Serve metrics there.")
    ] = None,
) -> None:
    """Copy the topics of all mirrors of a destination, until SIGTERM or Ctrl-C.

    More workers of the same destination share the work.

    Example: tanist fetcher run --destination west --metrics-port 9405
    """
    log_to_stderr()
    code = run_fetcher(now.world, now.destination().name, worker=worker, metrics_port=metrics_port)
    if code:
        raise typer.Exit(code)


@app.callback()
def root() -> None:
    """The persistent service that copies. Run as many as you like."""
