"""`tanist status` and `tanist next` alone: who is on call types these, and waits for nothing that they do not use.

The other commands, loaded with `app`, take as long to import as one of these to look at a mirror.
"""

from __future__ import annotations

from tanist.cli import health, root
from tanist.cli.next_step import next_step

app = root.command_line()
app.command("next")(next_step)
app.command("status")(health.status)


def run() -> None:
    """The command line of this process, which begins with one of these commands; ends it."""
    root.run(app)
