"""What `make test` prints at its end."""

from __future__ import annotations

import pytest

from tests.conftest import folder_of
from tests.time_spent import lines, profile


def report(nodeid: str, when: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, 0, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_seconds_are_summed_up_by_what_runs_in_one_process() -> None:
    """All phases count, and a test is counted once; unit tests are one folder."""
    found = profile(
        [
            report("tests/kafka/cli/test_a.py::test_1", "setup", 2.0),
            report("tests/kafka/cli/test_a.py::test_1", "call", 1.0),
            report("tests/kafka/cli/test_b.py::test_2", "call", 0.5),
            report("tests/unit/test_c.py::test_3", "call", 4.0),
        ],
        folder_of,
    )
    assert [(each.where, each.seconds, each.tests) for each in found] == [
        ("unit", 4.0, 1),
        ("kafka/cli", 3.5, 2),
    ]
    assert lines(found)[1].split() == ["3.5", "s", "2", "tests", "kafka/cli"]
