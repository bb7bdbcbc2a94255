"""`make bench`: the fetcher beside MirrorMaker 2, on the same topics, in one run, in turns."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from bench.comparison import compare
from bench.load import Load
from bench.pair import running
from bench.table import document, missed, table
from tanist.cli.output import guard, say
from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from bench.comparison import Measured

RESULTS: Final = Path(__file__).parent / "results"
QUICK: Final = 10
"""--quick makes this many times fewer records; a JVM does not get warm on them, so it flatters us."""


def _loads(records_1k: int, records_100b: int, records_small: int, *, quick: bool) -> list[Load]:
    less = QUICK if quick else 1
    large, small = records_100b // less, records_small // less
    loads = (
        Load(topic="bench-1k", size=1024, records=records_1k // less, target=6),
        Load(topic="bench-100b", size=100, records=large, target=15),
        Load(topic="bench-100b-16k", size=100, records=large, target=6, batch_bytes=16 << 10),
        Load(topic="bench-100b-10", size=100, records=4 * small, target=5, batch_records=10),
        Load(topic="bench-100b-1", size=100, records=small, target=3, rate_target=1.5, batch_records=1),
    )
    return [load for load in loads if load.records]


def main(
    *,
    records_1k: Annotated[int, typer.Option("--records-1k", help="Records of 1 KB; 0: leave them out.")] = 2_000_000,
    records_100b: Annotated[int, typer.Option("--records-100b", help="Records of 100 B; 0: none.")] = 5_000_000,
    records_small: Annotated[
        int, typer.Option("--records-small", help="Batches of one record of 100 B, and of ten; 0: none.")
    ] = 400_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each side copies each topic.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth: a trial, MM2 stays cold in it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is stored, not a table.")] = False,
) -> None:
    """Measure both sides. Exit code 1 when a target is missed."""
    with guard(as_json):
        begun, busy = datetime.now(UTC), os.getloadavg()[0]
        loads = _loads(records_1k, records_100b, records_small, quick=quick)
        with running(SystemClock()) as pair:
            found = compare(pair, loads, rounds, say)
        report = document(found, begun.isoformat(timespec="seconds"), busy)
        kept = _keep(report, f"{begun:%Y-%m-%dT%H%M%S}.json")
        _show(found, report, as_json=as_json)
        say(f"load average {busy:.1f} before, {os.getloadavg()[0]:.1f} after; stored in {kept}")
    for target in missed(found):
        say(f"missed: {target}")
    raise typer.Exit(1 if missed(found) else 0)


def _keep(report: dict[str, Any], name: str) -> Path:
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / name
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return file


def _show(found: list[Measured], report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    console = Console()
    for measured in found:
        console.print(table(measured))


def _end(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    typer.run(main)
