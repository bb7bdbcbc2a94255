"""`tanist fetcher`: the service that copies records."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.options import Session, asking
from tanist.cli.output import emit, say
from tanist.usecases.workers import WORKER_COLUMNS, forget_workers, worker_item
from tanist.wiring.fetcher import run_fetcher, worker_store
from tanist.wiring.host import log_to_stderr

app = typer.Typer(no_args_is_help=True, help="Run the service that copies records. Start as many as you need.")


@app.command()
@asking(timed=False)
def run(
    now: Session,
    worker: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Name of this worker (default: host name and process id).")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="P",
            min=1,
            max=65535,
            help="Port for Prometheus metrics (/metrics), and for probes (/livez, /readyz).",
        ),
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


@app.command()
@asking(changes=True)
def forget(
    now: Session,
    worker: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Workers, as `tanist state dump --key worker/` lists them.")
    ],
) -> None:
    """Remove workers that have ended for good, and the logins that only they have reported.

    The login of a worker counts as one that the mirror copies with until then, however long the worker is silent: a
    failover denies it WRITE, and it is never denied on mirror topics. Do not forget a worker that is frozen, or on a
    host that does not answer: it may write again.

    Example: tanist fetcher forget host1-4711 --destination west
    """
    side, by = now.destination(), now.context.by
    found = forget_workers(worker, side, lambda: worker_store(now.registry, side.name, by), now.context)
    emit([worker_item(each, now.context.clock.now()) for each in found], WORKER_COLUMNS, now.as_json)
    say(f"{'would forget' if now.context.dry_run else 'forgot'} {len(found)} worker(s)")


@app.callback()
def root() -> None:
    """Run the service that copies records. Start as many as you need."""
