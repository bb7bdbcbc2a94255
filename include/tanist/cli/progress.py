"""Progress of a failover: a table of steps on a terminal, otherwise one line per event."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tanist.cli.output import one_line, say
from tanist.usecases.failover.route import ROUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

_MARKS: Final = {"begins": "…", "done": "✔", "not yet": "⟳", "undone": "↩", "stopped": "✘", "broken": "⚠"}


class Board:
    """The steps and their progress."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float, float]] = {}
        self._reasons: dict[str, str] = {}

    def take(self, step: str, what: str, reason: str = "") -> None:
        now = time.monotonic()
        began = self._seen.get(step, (what, now, now))[1]
        self._reasons[step] = one_line(reason)
        self._seen[step] = (what, now if what == "begins" and step not in self._seen else began, now)

    def table(self) -> Table:
        from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it
        from rich.text import Text  # noqa: PLC0415

        table = Table("", "step", "postcondition", "s", box=None, pad_edge=False)
        for step in ROUTE:
            what, began, last = self._seen.get(step.id, ("", 0.0, 0.0))
            end = time.monotonic() if what in {"begins", "not yet"} else last
            reported = Text(self._reasons.get(step.id) or step.title)
            table.add_row(_MARKS.get(what, " "), step.id, reported, f"{end - began:.1f}" if what else "")
        return table

    def __rich__(self) -> Table:
        return self.table()


def line(step: str, what: str, reason: str = "") -> str:
    """A step as one line, with its reason."""
    return f"{step}: {what}{f': {one_line(reason)}' if reason else ''}"


@contextmanager
def watching(as_json: bool) -> Iterator[Callable[[str, str, str], None]]:
    """The receiver of progress events. With JSON or without a terminal it prints lines to standard error."""
    if as_json or not sys.stderr.isatty():
        yield lambda step, what, reason: say(line(step, what, reason))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    board = Board()
    with Live(board, console=Console(stderr=True), refresh_per_second=4):
        yield board.take
