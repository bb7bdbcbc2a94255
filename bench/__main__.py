"""`make bench`: the fetcher beside MirrorMaker 2, on the same topics, in one run, in turns."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from bench.comparison import compare
from bench.load import Load
from bench.pair import running
from bench.replicators import IDENTICAL, MAPPED, MM2, MM2_EXACTLY_ONCE
from bench.table import document, missed, table
from tanist.cli.output import guard, say
from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from bench.comparison import Measured

RESULTS: Final = Path(__file__).parent / "results"
CODECS: Final = ("snappy", "lz4", "zstd")
_LARGE: Final = 5_000_000
"""Records."""
_SMALL: Final = 400_000


def _loads(scale: float) -> list[Load]:
    large, small = int(_LARGE * scale), int(_SMALL * scale)
    return [
        Load(topic="bench-1k", size=1024, records=large * 2 // 5, target=6),
        Load(topic="bench-100b", size=100, records=large, target=15),
        Load(topic="bench-100b-16k", size=100, records=large, target=6, batch_bytes=16 << 10),
        Load(topic="bench-100b-10", size=100, records=4 * small, target=5, batch_records=10),
        *(
            Load(topic=name, size=100, records=small, target=3, rate_target=1.5, batch_records=1, codec=codec)
            for name, codec in (("bench-100b-1", "none"), ("bench-100b-1-lz4", "lz4"))
        ),
        *(Load(topic=f"bench-100b-{codec}", size=100, records=large, target=6, codec=codec) for codec in CODECS),
    ]


def _mapped(scale: float) -> list[Load]:
    """README's table; the targets are ratios to MirrorMaker 2 with exactly-once support."""
    targets = {"bench-1k": 6, "bench-100b": 20, "bench-100b-16k": 5, "bench-100b-10": 4, "bench-100b-1": 4}
    return [replace(load, target=targets[load.topic]) for load in _loads(scale) if load.topic in targets]


def main(
    *,
    scale: Annotated[
        float, typer.Option(min=0.01, help="Times as many records; MM2 stays cold on a tenth, which flatters Tanist.")
    ] = 1,
    only: Annotated[str, typer.Option(help="Only topics whose names contain this.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="How often each copies each topic.")] = 3,
    mapped: Annotated[
        bool,
        typer.Option("--mapped", help="Mapped offsets, beside identical ones and MM2 exactly once."),
    ] = False,
    tls: Annotated[bool, typer.Option("--tls", help="All listeners of both clusters use TLS; no targets.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is stored, not a table.")] = False,
) -> None:
    """Measure them. Exit code 1 when a target is missed."""
    with guard(as_json):
        begun, busy = datetime.now(UTC), os.getloadavg()[0]
        replicators = (MAPPED, IDENTICAL, MM2_EXACTLY_ONCE) if mapped else (IDENTICAL, MM2)
        loads = [load for load in (_mapped if mapped else _loads)(scale) if only in load.topic]
        with running(SystemClock(), tls=tls) as pair:
            found = compare(pair, loads, replicators, rounds, say)
        report = document(found, begun.isoformat(timespec="seconds"), busy) | {"tls": tls}
        kept = _keep(report, f"{begun:%Y-%m-%dT%H%M%S}.json")
        _show(found, report, as_json=as_json)
        say(f"load average {busy:.1f} before, {os.getloadavg()[0]:.1f} after; stored in {kept}")
    late = [] if tls else missed(found)
    for target in late:
        say(f"missed: {target}")
    raise typer.Exit(1 if late else 0)


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
