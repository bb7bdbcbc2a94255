"""The journeys of the robot, and the page that shows them: `python -m tests.scenarios`.

Each test that lets the robot follow `tanist next` leaves its journey in a file of its own; the page is made of all of
them.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.robot import Journey

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "following-results"
PAGE: Final = ROOT / "docs" / "reference" / "scenarios.md"
_NAME_OF_A_TEST: Final = re.compile(r"\btest-[a-z0-9-]+-[0-9a-f]{8}\b")
"""What topics of tests are called."""
_HEAD: Final = """<!-- Made by `python -m tests.scenarios`: do not edit. -->
# What a reader of `tanist next` types

A robot that knows nothing of Tanist types the first command that `tanist next` prints, until nothing is to be done, on
real clusters (`tests/kafka/failover/test_following.py`, `tests/kafka/groups/test_beside_mm2.py`; through Airflow it
triggers and answers instead, `tests/airflow/test_following.py`). Of a decision it knows only the number of its answer.
Seconds are those of the commands, without what a person reads; a run proves its source fences for 5 s.

| scenario | commands | of these refused | seconds | decisions of a person |
| --- | ---: | ---: | ---: | --- |
"""


def record(scenario: str, *journeys: Journey) -> None:
    """Keep what was typed in a scenario, in one or several journeys."""
    RESULTS.mkdir(exist_ok=True)
    name = "".join(each if each.isalnum() else "-" for each in scenario)
    whole = {"scenario": scenario, "journeys": [asdict(each) for each in journeys]}
    (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def page() -> str:
    """The table of everything that was recorded."""
    rows = []
    for file in sorted(RESULTS.glob("*.json")):
        whole = json.loads(file.read_text(encoding="utf-8"))
        made = whole["journeys"]
        counts = [sum(len(each[name]) for each in made) for name in ("commands", "failed")]
        taken = dict.fromkeys(each for journey in made for each in journey["decisions"])
        decisions = _NAME_OF_A_TEST.sub("TOPIC", "; ".join(taken)) or "none"
        seconds = sum(each["seconds"] for each in made)
        rows.append(f"| {whole['scenario']} | {counts[0]} | {counts[1]} | {seconds:.0f} | {decisions} |")
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)  # noqa: T201 -- a command
