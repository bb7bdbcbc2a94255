"""`python -m tests.explorer --runs 2000 --seed 1`: plays so many stories; every rule that one breaks is told once."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.explorer.explore import describe, explore, shortest


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.explorer", description=__doc__)
    asked.add_argument("--runs", type=int, default=1_000, help="how many stories")
    asked.add_argument("--seed", type=int, default=1, help="of the first; each one after it is the next number")
    asked.add_argument("--rule", help="stop at the first story that breaks this rule")
    given = asked.parse_args()
    logging.disable()
    began, broken, points = time.perf_counter(), Counter[str](), 0
    for number, played in enumerate(explore(given.seed, given.runs), 1):
        points += played.points
        for rule in {each.rule for each in played.violations}:
            broken[rule] += 1
            if broken[rule] == 1 and given.rule in {None, rule}:
                say(f"after {number} stories:\n{describe(shortest(played, rule), rule)}\n")
            if rule == given.rule:
                return 1
    took = time.perf_counter() - began
    say(f"{given.runs} stories from {given.seed} on, {points} calls, {took:.1f} s; broken: {dict(broken) or 'nothing'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
