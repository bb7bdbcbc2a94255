"""`python -m bench.plot RESULT.json [...]`: stored results as Markdown, a table and a Mermaid chart of the ratios."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench import mm2_run, tanist_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEAD: Final = ("", "MB per CPU-s: Tanist", "MM2", "ratio", "relay", "MB/s: Tanist", "MM2", "ratio")


def markdown(results: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The lines, of all loads of all results."""
    loads = [(_name(load, tls=result["tls"]), load) for result in results for load in result["loads"]]
    yield _row(_HEAD)
    yield "|---" + "|---:" * (len(_HEAD) - 1) + "|"
    for name, load in loads:
        cost, rate = (_figures(load, figure) for figure in ("mb_per_cpu_s", "mb_per_s"))
        yield _row((name, *cost, f"{load['relay_mb_per_cpu_s']:,.0f}", *rate))
    yield from ("", "```mermaid", "xychart-beta")
    yield '    title "MB per CPU-second, as multiples of MirrorMaker 2"'
    yield f"    x-axis [{', '.join(json.dumps(name) for name, _ in loads)}]"
    yield '    y-axis "times MirrorMaker 2"'
    yield f"    bar [{', '.join(_figures(load, 'mb_per_cpu_s')[2] for _, load in loads)}]"
    yield "```"


def _name(load: dict[str, Any], *, tls: bool) -> str:
    return f"{load['label']}{', TLS' if tls else ''}"


def _figures(load: dict[str, Any], figure: str) -> tuple[str, str, str]:
    """Medians of both sides, and their ratio."""
    ours, theirs = (median(each[figure] for each in load["rounds"][side.NAME]) for side in (tanist_run, mm2_run))
    return f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(markdown(json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])))
