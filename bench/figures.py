"""Figures of the code itself, for people and for programs: a Markdown table, or one list with `--json`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def table(rows: Sequence[Any]) -> str:
    """Dataclasses of one kind as Markdown; the first field names the row, the others are numbers."""
    shown = [asdict(row) for row in rows]
    name, *numbers = shown[0]
    head = f"| {' | '.join(each.replace('_', ' ') for each in (name, *numbers))} |"
    lines = (f"| {row[name]} | {' | '.join(f'{row[each]:,}' for each in numbers)} |" for row in shown)
    return "\n".join((head, "| --- |" + " ---: |" * len(numbers), *lines))


def show(prog: str, description: str, measured: Callable[[], Sequence[Any]]) -> None:
    """The command line of a measure."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    parser.add_argument("--json", action="store_true", help="one list instead of a table")
    as_json, rows = parser.parse_args().json, measured()
    print(json.dumps([asdict(row) for row in rows]) if as_json else table(rows))
