"""What is said of failovers through Airflow follows from how their runs ended; a broken promise is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tanist_testkit.demo.airflow_runs import DagRun, of_runs

GOOD = DagRun(
    id="manual__1",
    mirror="m2",
    question="Plan `6aa47345f0740105`: planned failover",
    asked_by="op",
    verdict="DONE",
    why={},
    plan="6aa47345f0740105",
    approver="op2",
    states={"plan": "success", "approve": "success", "report": "success"},
    refused=1,
)
DONE, SHOWN, FOUR_EYES = range(3)


def broken(run: DagRun, *, tried: bool = True) -> list[int]:
    """Which promises were."""
    return [number for number, each in enumerate(of_runs([GOOD, run], tried=tried)) if not each.ok]


def test_a_run_as_it_should_be_keeps_every_promise() -> None:
    assert broken(GOOD) == []
    assert not [each for each in of_runs([replace(GOOD, refused=0)], tried=False) if not each.ok]


@pytest.mark.parametrize(
    ("changed", "promise"),
    [
        ({"verdict": "UNDONE: aborted"}, DONE),
        ({"states": {**GOOD.states, "seal": "failed"}}, DONE),
        ({"states": {**GOOD.states, "seal": None}}, DONE),
        ({"question": "Plan `0b4c10d3bca7cbba`: planned failover"}, SHOWN),
        ({"approver": "op"}, FOUR_EYES),
        ({"asked_by": "op2"}, FOUR_EYES),
        ({"refused": 0}, FOUR_EYES),
    ],
    ids=["undone", "a task failed", "a task never began", "another plan", "own approval", "own request", "not refused"],
)
def test_a_broken_promise_is_reported(changed: dict[str, Any], promise: int) -> None:
    assert broken(replace(GOOD, **changed)) == [promise]
