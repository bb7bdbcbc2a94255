"""What every `tanist` command line has: its options, how it runs, and how it ends."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from tanist import __version__
from tanist.cli.extensions import Commands
from tanist.cli.output import DEBUG, REFUSED, fail, guard

if TYPE_CHECKING:
    from collections.abc import Sequence

_JSON: Final = frozenset({("--json",), ("--output=json",), ("-ojson",), ("-o", "json"), ("--output", "json")})


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tanist {__version__}")
        raise typer.Exit


def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback if Tanist itself fails.")] = False,
) -> None:
    """Disaster recovery for Apache Kafka: identical mirrors, exact consumer offsets, approved failover."""
    if debug:
        os.environ[DEBUG] = "1"


def command_line() -> typer.Typer:
    """A command line without commands."""
    app = typer.Typer(
        name="tanist",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Disaster recovery for Apache Kafka: identical mirrors, exact consumer offsets, approved failover.",
        epilog=(
            "Exit codes: 0 done, GO or ACCEPT; 1 check failed, NO-GO or refused; 2 invalid command line or "
            "configuration; 3 unknown, nothing was changed; 4 partial, run it again; 70 a bug in Tanist; 130 "
            "Ctrl-C, 143 SIGTERM."
        ),
    )
    app.callback()(root)
    return app


def run(app: typer.Typer) -> None:
    """The command line of this process, with the commands of `app`; ends it."""
    as_json = _wants_json(sys.argv)
    try:
        with guard(as_json):
            _must_be_text(sys.argv[1:])
            sys.exit(app(standalone_mode=False))
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except typer.Abort:
        fail("ABORTED", "not confirmed", "nothing was changed", as_json)
        sys.exit(REFUSED)
    except typer.TyperException as wrong:
        if not wrong.format_message():
            cast("Any", wrong).show()  # called without anything: the help is the answer
            sys.exit(wrong.exit_code)
        said = wrong.format_message().replace(" Value error, ", " ")  # what a choice of values says before its reason
        fail("INVALID_USAGE", said, f"see `{_path(wrong)} --help`", as_json)
        sys.exit(wrong.exit_code)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether JSON is requested, also on a command line that may be invalid."""
    pairs = pairwise(arguments)
    return not _JSON.isdisjoint({*((word,) for word in arguments), *pairs})


def _must_be_text(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8, which Python passes as lone surrogates: they could not be stored or sent."""
    for word in arguments:
        if any("\ud800" <= each <= "\udfff" for each in word):
            raise typer.BadParameter(f"{word!a} is not UTF-8")


def _path(wrong: typer.TyperException) -> str:
    """The command path, as far as it was parsed."""
    context = getattr(wrong, "ctx", None)
    return context.command_path if context else "tanist"
