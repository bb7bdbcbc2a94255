"""`python -m tests.storm.table`: docs/storm.md, from what the parts of `make storm` have seen of one commit.

Refused where a part is missing, was interrupted, or is of another commit. Exit code 1 as well where something failed:
the table then says what.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.storm.parts import SECONDS_FILE
from tests.storm.results import FOLDER, ROOT, LongTest, PartRun, read_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE: Final = ROOT / "docs" / "storm.md"
HEAD: Final = "<!-- Written by `python -m tests.storm.table`; do not edit. -->\n"


class Incomplete(Exception):
    """The parts are not one whole: why, and which command is next."""


def whole(runs: Sequence[PartRun]) -> tuple[PartRun, ...]:
    """All parts of one commit, in their order.

    Raises:
        Incomplete: they are not all there, or not of one commit.
    """
    if not runs:
        raise Incomplete("no part has been run: `make storm`")
    first = runs[0]
    if len({each.commit for each in runs}) > 1:
        found = ", ".join(f"part {each.part}/{each.of} is of {each.commit[:12]}" for each in runs)
        raise Incomplete(f"the parts are of several commits ({found}): run them all on one")
    for each in runs:
        again = f"`make storm PART={each.part}/{each.of}`"
        if each.dirty or each.commit == "unknown":
            raise Incomplete(f"part {each.part}/{each.of} ran on files of no commit: commit them, then {again}")
        if not each.ended:
            raise Incomplete(f"part {each.part}/{each.of} was interrupted: {again}")
        if (each.of, sorted(each.everything)) != (first.of, sorted(first.everything)):
            raise Incomplete(f"part {each.part}/{each.of} divides other tests, or in another way: {again}")
    if lacking := sorted(set(range(1, first.of + 1)) - {each.part for each in runs}):
        raise Incomplete(f"not run yet: {', '.join(f'`make storm PART={part}/{first.of}`' for part in lacking)}")
    if sorted(row.name for each in runs for row in each.rows) != sorted(first.everything):
        raise Incomplete("the parts overlap, or leave something out: run them all again")
    return tuple(sorted(runs, key=lambda each: each.part))


def page(runs: Sequence[PartRun]) -> str:
    """Of all parts of one commit."""
    return "\n".join((HEAD, *_lines(runs), ""))


def _lines(runs: Sequence[PartRun]) -> Iterator[str]:
    rows = [row for run in runs for row in run.rows]
    bad = sum(not row.result.ok for row in rows)
    yield "# Long tests and storms"
    yield ""
    yield f"`make storm` on commit `{runs[0].commit}`: {f'**{bad} of {len(rows)} failed**' if bad else 'all was well'}."
    yield "Parts: " + ", ".join(f"{each.part}/{each.of} in {each.seconds / 60:.0f} minutes" for each in runs) + "."
    yield ""
    yield "| what | result | seconds | faults | records compared | violations |"
    yield "|---|---|---:|---:|---:|---:|"
    for storm in (each for run in runs for each in run.storms):
        name = f"{storm.name}: {storm.asked_seconds:.0f} s of faults, seed {storm.seed}"
        counts = (storm.figures.faults, storm.figures.records, storm.figures.violations)
        figures = " | ".join(f"{count:,}" for count in counts)
        yield f"| {name} | {storm.result} | {storm.seconds:.0f} | {figures} |"
    for test in sorted((each for run in runs for each in run.tests), key=lambda each: each.name):
        yield f"| `{_cell(test)}` | {test.result} | {test.seconds:.0f} | | | |"


def _cell(test: LongTest) -> str:
    return test.name.removeprefix("tests/").replace("|", "\\|")


def seconds(runs: Sequence[PartRun]) -> dict[str, float]:
    """How long the long tests of each file took."""
    found: defaultdict[str, float] = defaultdict(float)
    for test in (each for run in runs for each in run.tests):
        found[test.file] += test.seconds
    return {file: round(total) for file, total in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm.table", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="of the parts (default: all in storm-results)")
    asked = parser.parse_args()
    try:
        runs = whole([read_part(file) for file in asked.files or sorted(FOLDER.glob("part-*.json"))])
    except Incomplete as why:
        print(f"error: {why}", file=sys.stderr)  # noqa: T201
        return 1
    PAGE.write_text(page(runs), encoding="utf-8")
    SECONDS_FILE.write_text(json.dumps(seconds(runs), indent=1) + "\n", encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {SECONDS_FILE.relative_to(ROOT)}")  # noqa: T201
    return 0 if all(each.ok for each in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
