"""`python -m tests.storm --seconds 300 --seed 7`: exit code 0 when nothing was lost, repeated or misplaced."""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tanist.domain.delivery import Delivery
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.screen import Screen
from tests.storm import circle, runbook
from tests.storm.storm import Outcome, run

KINDS = ("circle", "runbook", "at-least-once", "mapped")
"""Options that choose another storm than that of a mirror with identical offsets."""


def _delivery(asked: argparse.Namespace) -> Delivery | None:
    if asked.at_least_once:
        return Delivery.AT_LEAST_ONCE
    return Delivery.EXACTLY_ONCE if asked.mapped else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of faults; some 60 more for start and comparison")
    parser.add_argument("--seed", type=int, default=None, help="of schedule and load (default: a new one)")
    parser.add_argument(
        "--runbook", action="store_true", help="operators at the runbook instead of faults under a copy"
    )
    parser.add_argument("--circle", action="store_true", help="failovers to and fro instead of faults under a copy")
    parser.add_argument("--mapped", action="store_true", help="a mirror with mapped offsets under the faults")
    parser.add_argument("--at-least-once", action="store_true", help="as --mapped, delivered at least once")
    parser.add_argument("--keep", action="store_true", help="keep data and logs of a good run, too")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write what was counted to it, as JSON")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    seed = secrets.randbelow(10_000) if asked.seed is None else asked.seed
    directory = Path(tempfile.mkdtemp(prefix=f"tanist-storm-{seed}-"))
    screen = Screen(Console(soft_wrap=True), SystemClock())
    screen.note(f"seed {seed}, {asked.seconds:.0f} s; data and logs: {directory}")
    outcome: runbook.Outcome | Outcome | None = None
    try:
        if asked.circle:
            outcome = circle.run(screen, SystemClock(), seconds=asked.seconds, seed=seed, directory=directory)
            outcome.show(Console(soft_wrap=True))
        elif asked.runbook:
            outcome = runbook.run(screen, seconds=asked.seconds, seed=seed, directory=directory)
            outcome.show(Console(soft_wrap=True))
        else:
            outcome = run(
                screen,
                SystemClock(),
                seconds=asked.seconds,
                seed=seed,
                directory=directory,
                delivery=_delivery(asked),
            )
            for line in outcome.lines():
                screen.note(line)
    finally:
        well = outcome is not None and outcome.ok
        if outcome is not None and asked.figures:
            asked.figures.write_text(json.dumps(asdict(outcome.counted())), encoding="utf-8")
        kind = next((kind for kind in KINDS if getattr(asked, kind.replace("-", "_"))), "")
        again = f" ARGS=--{kind}" if kind else ""
        if well and not asked.keep:
            shutil.rmtree(directory, ignore_errors=True)
        else:
            screen.note(f"data and logs are kept in {directory}")
        screen.note(f"{'well' if well else 'FAILED'}; again: make storm FOR={asked.seconds:.0f} SEED={seed}{again}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
