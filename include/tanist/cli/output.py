"""Output of commands: a table or one JSON object on standard output, errors in one line on standard error."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tanist.domain.envelope import envelope, error_items
from tanist.domain.errors import TanistError
from tanist.domain.names import iso_time
from tanist.domain.next_steps.rules import next_command
from tanist.domain.problems import Problems, each, exit_code, lines
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.items import step_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from tanist.domain.approval.entries import Approval
    from tanist.domain.next_steps.step import Guidance
    from tanist.ports.clock import Clock
    from tanist.usecases.runs.runner import RunTable

    AnyTable = RunTable[Any, Any, Any, *tuple[Any, ...]]


REFUSED: Final = 1
BUG: Final = 70
DEBUG: Final = "TANIST_DEBUG"
"""The environment variable (also set by `--debug`) that shows tracebacks of bugs."""


_TIME: Final = "_at_ms"
"""How columns end that are times in ms since 1970: a table shows them as ISO 8601."""


QUIET_SECONDS: Final = 5.0
"""After which a long operation says that it still runs."""


class Format(StrEnum):
    TABLE, JSON = "table", "json"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for -o json.")]


def emit(
    items: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    as_json: bool,
    *,
    rows: Sequence[Mapping[str, Any]] | None = None,
    errors: Sequence[Mapping[str, Any]] = (),
    following: Guidance | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print `items` as one JSON object, or `rows` (by default the items) as a table of `columns`, keys of a row.

    `following`: what to do next about the mirror of the command; its first step is said to people.
    `more`: what the JSON object has beside its items.
    Under JSON nothing else may be printed on standard output by the same command.
    """
    if as_json:
        print(_json(items, errors, {**more, "next": step_items(following.steps)} if following is not None else more))
        return
    print(_table(items if rows is None else rows, columns))
    if following is not None and following.steps:
        say(f"next: {next_command(following)}")


def none(reason: str, as_json: bool) -> None:
    """Print `reason`, with the next step, instead of an empty table."""
    say(reason)
    if as_json:
        print(_json((), ()))


def say(text: str) -> None:
    """Print a message for people to standard error, in one piece: several threads may do so."""
    print(f"{text}\n", end="", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """`text` with spaces instead of line breaks and other control characters."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def stages(clock: Clock) -> Callable[[str], None]:
    """`say` for long operations: each line begins with the seconds since this call."""
    began = clock.monotonic()
    return lambda text: say(f"[{clock.monotonic() - began:5.1f} s] {text}")


@contextmanager
def never_silent(progress: Callable[[str], None], seconds: float = QUIET_SECONDS) -> Iterator[Callable[[str], None]]:
    """The receiver of progress inside. When it hears nothing for `seconds`, it says so, and what it has heard last.

    Whatever an operation waits for, such as a broker that is away, nobody has to guess whether it still runs.
    """
    heard, over = [("nothing yet", time.monotonic())], threading.Event()

    def hear(text: str) -> None:
        heard[0] = (text, time.monotonic())
        progress(text)

    def watch() -> None:
        while not over.wait(seconds):
            last, at = heard[0]
            if (quiet := time.monotonic() - at) >= seconds:
                progress(f"has said nothing for {quiet:.0f} s; the last step was: {last}")

    watching = threading.Thread(target=watch, name="tanist-never-silent", daemon=True)
    watching.start()
    try:
        yield hear
    finally:
        over.set()
        watching.join()


@contextmanager
def no_verdict() -> Iterator[None]:
    """Inside, what is refused exits with 2: of a comparison 1 means that the logs differ."""
    try:
        yield
    except TanistError as refusal:
        if exit_code(refusal) != REFUSED:
            raise
        raise Problems(each(refusal), least=2) from None


@contextmanager
def guard(as_json: bool = False, *, debug: bool = False) -> Iterator[None]:
    """Turn an error inside into one line per problem and its exit code.

    Tracebacks of bugs go to a private file, and to the terminal only with `debug` or $TANIST_DEBUG.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.TyperException):
        raise
    except TanistError as refusal:
        _report(refusal, as_json)
        raise typer.Exit(exit_code(refusal)) from None
    except KeyboardInterrupt as interrupt:
        sign = signal.Signals(interrupt.args[0]) if interrupt.args else signal.SIGINT
        reported = "Ctrl-C" if sign is signal.SIGINT else sign.name
        fail("INTERRUPTED", f"ended by {reported}", "run the same command again", as_json)
        raise typer.Exit(128 + sign) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has seen enough
        raise typer.Exit(0) from None
    except Exception as bug:  # noqa: BLE001 -- the outermost edge
        _report_bug(bug, as_json, shown=debug or _debugging())
        raise typer.Exit(BUG) from None


def say_error(refusal: TanistError) -> None:
    """Print an error as commands end with it: one line per problem, and the next step if it is known."""
    for line in lines(refusal):
        say(f"error: {one_line(line)}")
    for note in getattr(refusal, "__notes__", ()):
        say(f"next: {one_line(note)}")


def _report(refusal: TanistError, as_json: bool) -> None:
    say_error(refusal)
    notes = getattr(refusal, "__notes__", [])
    if as_json:
        print(_json((), [item | {"next": notes} if notes else item for item in error_items(refusal)]))


def fail(name: str, reason: str, action: str, as_json: bool) -> None:
    """Print an error that is not a TanistError in the same format."""
    say(f"error: {one_line(f'{name}: {reason} ({action})')}")
    if as_json:
        print(_json((), ({"name": name, "reason": reason, "action": action},)))


def _report_bug(bug: Exception, as_json: bool, *, shown: bool) -> None:
    text = "".join(traceback.format_exception(bug))
    handle, path = tempfile.mkstemp(prefix="tanist-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as log:
        log.write(text)
    if shown:
        say(text)
    fail(TanistError.name, f"{type(bug).__name__}: {bug}", f"{TanistError.operator_action}; details: {path}", as_json)


def _debugging() -> bool:
    return bool(os.environ.get("TANIST_DEBUG"))


def _json(
    items: Sequence[Mapping[str, Any]],
    errors: Sequence[Mapping[str, Any]],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    whole = {**envelope(items, SystemClock().now(), errors), **more}
    return json.dumps(whole, indent=2 if sys.stdout.isatty() else None)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    head = [
        (column.removesuffix("_ms") if column.endswith(_TIME) else column).upper().replace("_", "-")
        for column in columns
    ]
    lines = [head, *([_cell(_readable(column, row.get(column))) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _readable(column: str, value: object) -> object:
    return iso_time(value) if column.endswith(_TIME) and isinstance(value, int) else value


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


_MARKS: Final = {"begins": "…", "done": "✔", "not yet": "⟳", "undone": "↩", "stopped": "✘", "broken": "⚠"}


class Board:
    """The steps of a table, and their progress."""

    def __init__(self, of: AnyTable) -> None:
        self._of = of
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
        for step in self._of:
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
def watching(as_json: bool, of: AnyTable = ROUTE) -> Iterator[Callable[[str, str, str], None]]:
    """The receiver of progress events. With JSON or without a terminal it prints lines to standard error."""
    if as_json or not sys.stderr.isatty():
        yield lambda step, what, reason: say(line(step, what, reason))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    board = Board(of)
    with Live(board, console=Console(stderr=True), refresh_per_second=4):
        yield board.take


def say_how(at_once: Sequence[str], approving: Sequence[str], running: Sequence[str], *, four_eyes: bool) -> None:
    """Print the commands that approve a plan and run it, each as its words; with four eyes no command does both."""
    if not four_eyes:
        say(f"approve and run it with: {shlex.join(at_once)}")
    say(f"{'' if four_eyes else 'or '}approve it with another login: {shlex.join(approving)}")
    say(f"then run it with: {shlex.join(running)}")


def say_unread(approval: Approval) -> None:
    """A warning where it could not be read back; it is written, and a run may use it."""
    if approval.unread:
        say(f"warning: it is written (approval {approval.id}), but could not be read back: {approval.unread}")
