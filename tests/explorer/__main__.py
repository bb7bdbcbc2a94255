"""`python -m tests.explorer --runs 2000 --seed 1`: so many stories of each kind, each broken rule told once."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from typing import Final

from tests.explorer.circle_story import drawn_circle
from tests.explorer.explore import describe, explore, shortest
from tests.explorer.mapped_story import drawn_mapped
from tests.explorer.story import drawn
from tests.explorer.table_story import drawn_rows

KINDS: Final = {"failover": drawn, "circle": drawn_circle, "rows": drawn_rows, "mapped": drawn_mapped}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.explorer", description=__doc__)
    asked.add_argument("--runs", type=int, default=1_000, help="how many stories")
    asked.add_argument("--seed", type=int, default=1, help="of the first; each one after it is the next number")
    asked.add_argument("--rule", help="stop at the first story that breaks this rule")
    asked.add_argument("--kind", choices=(*KINDS, "all"), default="all", help="of story; each seed tells one of each")
    given = asked.parse_args()
    logging.disable()
    began, broken, points, number = time.perf_counter(), Counter[str](), 0, 0
    kinds = KINDS.values() if given.kind == "all" else [KINDS[given.kind]]
    stories = (
        played
        for seed in range(given.seed, given.seed + given.runs)
        for kind in kinds
        for played in explore(seed, 1, kind)
    )
    for number, played in enumerate(stories, 1):
        points += played.points
        for rule in {each.rule for each in played.violations}:
            broken[rule] += 1
            if broken[rule] == 1 and given.rule in {None, rule}:
                say(f"after {number} stories:\n{describe(shortest(played, rule), rule)}\n")
            if rule == given.rule:
                return 1
    took = time.perf_counter() - began
    say(f"{number} stories from {given.seed} on, {points} calls, {took:.1f} s; broken: {dict(broken) or 'nothing'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
