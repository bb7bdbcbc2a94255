"""What `tanist status` says to people: the verdicts and their limitations, the checks that do not pass, a count."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from tanist.cli.output import one_line
from tanist.domain.checks import Verdict
from tanist.usecases.items import reasons

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NARROWEST = 40
"""Columns below which nothing is wrapped more: a narrower terminal wraps by itself."""
_COMMAND: Final = re.compile(r"`(?:tanist|kafka-[a-z-]+\.sh) [^`]*`")
_JOINT: Final = "\0"
"""Stands for a space at which no line ends; `one_line` leaves none in a text."""


def status_text(items: Sequence[Mapping[str, Any]], modes: Sequence[str], width: int, *, every: bool) -> str:
    """Items of `status_item`, with the verdicts of `modes`, in lines of at most `width` columns (at least `NARROWEST`).

    `every`: passing checks are listed, too; else they are counted. A command can be copied: no line ends within one,
    and one that is wider than `width` has a line of its own. The next command always has.
    """
    return "\n\n".join("\n".join(_mirror(item, modes, max(width, NARROWEST), every=every)) for item in items)


def _mirror(item: Mapping[str, Any], modes: Sequence[str], width: int, *, every: bool) -> Iterator[str]:
    for mode in modes:
        yield from _wrapped(f"{item['mirror']}: {mode} failover: {item[mode]}", width, "  ")
        for reason in reasons(item, mode):
            effect = "blocks" if reason["blocks"] else "usual" if reason["usual"] else "accept"
            yield from _wrapped(f"  {effect:<7} {reason['name']}: {reason['detail']}", width, " " * 10)
    passing = [check for check in item["checks"] if check["verdict"] == Verdict.PASS]
    listed = item["checks"] if every else [check for check in item["checks"] if check not in passing]
    if listed:
        yield "checks:" if every else "checks that do not pass:"
    for check in listed:
        yield from _wrapped(f"  {check['verdict']:<7} {check['name']}: {_observed(check)}", width, " " * 10)
    if passing and not every:
        yield f"{len(passing)} check{'s pass' if len(passing) > 1 else ' passes'}; --all shows them"
    for step in item.get("next", ())[:1]:
        yield from _wrapped(f"{step['decision']}:", width, "  ") if step["decision"] else ()
        yield f"next: {step['command']}"


def _observed(check: Mapping[str, Any]) -> str:
    """What was observed, and of a check that does not pass what it should be and why it is not."""
    if check["verdict"] == Verdict.PASS:
        return check["observed"] or "-"
    limit = f" (expected: {check['limit']})" if check["limit"] else ""
    return "; ".join(filter(None, (f"{check['observed'] or 'unknown'}{limit}", check["reason"])))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """`text` in lines of at most `width` columns, the first with its own indentation, the others with `indent`.

    A word that is longer stays whole, as does a command in backticks.
    """
    lead = text[: len(text) - len(text.lstrip())]
    found = textwrap.wrap(
        _COMMAND.sub(lambda command: command[0].replace(" ", _JOINT), one_line(text)),
        width,
        initial_indent=lead,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(_JOINT, " ") for line in found]
