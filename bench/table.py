"""What was found, for people and for programs."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench.sampling import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.comparison import Measured

ROWS: Final = {
    "mb_per_s": "MB/s",
    "mb_per_cpu_s": "MB per CPU-second",
    "cpu_s_per_million": "CPU-seconds per million records",
    "peak_mb": "peak memory, MB",
    "first_record_s": "seconds until the first record",
    "all_s": "seconds until the last record",
}
TARGET: Final = "mb_per_cpu_s"
RATE: Final = "mb_per_s"
OF_OURS: Final = 0.5
"""At least so much of what our other kind of mirror reaches."""


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Of all rounds of one."""
    return {each.name: median(getattr(round_, each.name) for round_ in rounds) for each in fields(Figures)}


def ratios(measured: Measured) -> dict[str, float]:
    """Ours by the peer's, figure by figure."""
    return by(measured, measured.replicators[-1].name)


def by(measured: Measured, other: str) -> dict[str, float]:
    """Ours by those of another, figure by figure."""
    ours, theirs = (medians(measured.rounds[name]) for name in (measured.replicators[0].name, other))
    return {name: ours[name] / theirs[name] for name in ours}


def table(measured: Measured) -> Table:
    """One load: all replicators, and the ratios of ours by each other."""
    load = measured.load
    made = Table(title=f"{load.title}, source batches of {measured.batch_kb:.0f} kB", title_justify="left")
    made.add_column("")
    names = [each.name for each in measured.replicators]
    for name in (*names, *(f"by {other}" for other in names[1:]), "TCP relay"):
        made.add_column(name, justify="right")
    figures = [medians(measured.rounds[name]) for name in names]
    for name, title in ROWS.items():
        relay = _number(measured.relay_mb_per_cpu_s) if name == TARGET else ""
        rates = [f"{by(measured, other)[name]:.2f}" for other in names[1:]]
        made.add_row(title, *(_number(each[name]) for each in figures), *rates, relay)
    return made


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def missed(found: Sequence[Measured]) -> list[str]:
    """The targets that were not reached."""
    return [
        f"{each.load.title}: {by(each, other)[name]:.1f} times {other}'s {ROWS[name]}, the target is {target:g}"
        for each in found
        for other, name, target in _targets(each)
        if by(each, other)[name] < target
    ]


def _targets(measured: Measured) -> tuple[tuple[str, str, float], ...]:
    load, peer = measured.load, measured.replicators[-1].name
    between = tuple((each.name, TARGET, OF_OURS) for each in measured.replicators[1:-1])
    return ((peer, TARGET, load.target), (peer, RATE, load.rate_target), *between)


def document(found: Sequence[Measured], at: str, load_before: float) -> dict[str, Any]:
    """Everything, as it is stored. `at`: when, ISO 8601; `load_before`: the machine's load average at the start."""
    return {
        "schema_version": 1,
        "at": at,
        "cores": os.cpu_count(),
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
        "loads": [_load(each) for each in found],
        "missed": missed(found),
    }


def _load(measured: Measured) -> dict[str, Any]:
    load = measured.load
    return {
        "label": load.label,
        "size": load.size,
        "records": load.records,
        "batch_kb": round(measured.batch_kb, 1),
        "target": load.target,
        "relay_mb_per_cpu_s": measured.relay_mb_per_cpu_s,
        "ratios": ratios(measured),
        "rounds": {name: [asdict(figures) for figures in rounds] for name, rounds in measured.rounds.items()},
    }
