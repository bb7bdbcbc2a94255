"""What was found, for people and for programs."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bench import mm2_run, tanist_run
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


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Of all rounds of one side."""
    return {each.name: median(getattr(round_, each.name) for round_ in rounds) for each in fields(Figures)}


def ratios(measured: Measured) -> dict[str, float]:
    """Ours by theirs, figure by figure."""
    ours, theirs = (medians(measured.rounds[side.NAME]) for side in (tanist_run, mm2_run))
    return {name: ours[name] / theirs[name] for name in ours}


def table(measured: Measured) -> Table:
    """One load: both sides, and their ratio."""
    load = measured.load
    made = Table(title=f"{load.title}, source batches of {measured.batch_kb:.0f} kB", title_justify="left")
    made.add_column("")
    for name in (tanist_run.NAME, mm2_run.NAME, "ratio", "TCP relay"):
        made.add_column(name, justify="right")
    ours, theirs = (medians(measured.rounds[side.NAME]) for side in (tanist_run, mm2_run))
    for name, title in ROWS.items():
        relay = _number(measured.relay_mb_per_cpu_s) if name == TARGET else ""
        made.add_row(title, _number(ours[name]), _number(theirs[name]), f"{ratios(measured)[name]:.2f}", relay)
    return made


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def missed(found: Sequence[Measured]) -> list[str]:
    """The targets that were not reached."""
    return [
        f"{each.load.title}: {ratios(each)[name]:.1f} times {mm2_run.NAME}'s {ROWS[name]}, the target is {target:g}"
        for each in found
        for name, target in ((TARGET, each.load.target), (RATE, each.load.rate_target))
        if ratios(each)[name] < target
    ]


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
