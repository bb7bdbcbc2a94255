"""The command `tanist`, with all of its commands."""

from __future__ import annotations

from tanist.cli import failback, failover, fence, fetcher, groups, health, metadata, mirrors, offsets, root, state
from tanist.cli.fsm import fsm
from tanist.cli.next_step import next_step
from tanist.cli.reconcile import reconcile
from tanist.cli.validate import validate

app = root.command_line()
app.add_typer(mirrors.app, name="mirrors")
app.command("next")(next_step)
app.command("status")(health.status)
app.command("doctor")(health.doctor)
app.add_typer(fetcher.app, name="fetcher")
app.add_typer(metadata.app, name="metadata")
app.add_typer(groups.app, name="groups")
app.add_typer(offsets.app, name="offsets")
app.add_typer(failover.app, name="failover")
app.add_typer(failback.app, name="failback")
app.add_typer(fence.app, name="fence")
app.command("validate")(validate)
app.command("reconcile")(reconcile)
app.add_typer(state.app, name="state")
app.command("fsm")(fsm)


def run() -> None:
    """The command line of this process; ends it."""
    root.run(app)
