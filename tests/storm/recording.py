"""A plugin of pytest for the parts of `make storm`: runs the tests that a file names, and writes what came of each.

Each line is written at once, so that nothing is lost with a process that is killed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

WANTED: Final = "TANIST_STORM_WANTED"
"""Environment variable: a file with the ids of the tests to run, as a JSON list; none: all that are collected."""
RECORD: Final = "TANIST_STORM_RECORD"
"""Environment variable: the file to write to."""
STARTED: Final = "started"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := os.environ.get(WANTED):
        wanted = set(json.loads(Path(file).read_text(encoding="utf-8")))
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in wanted])
        items[:] = [each for each in items if each.nodeid in wanted]


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        for each in session.items:
            _write(id=each.nodeid)


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(id=nodeid, phase=STARTED)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Of setup, call and teardown; of a test whose process has died there is a failed one without a phase."""
    _write(id=report.nodeid, phase=report.when, result=report.outcome, seconds=report.duration)


def _write(**line: Any) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that started the workers hears the same from each of them
    with Path(os.environ[RECORD]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
