"""What every Sink of evidence does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.wiring.failover import Folder
from tests.fakes.sink import MemorySink
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.usecases.runs.runner import Sink


@pytest.fixture(params=["memory", "files"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return MemorySink() if request.param == "memory" else Folder(tmp_path)


def test_the_last_evidence_is_told_as_it_was(sink: Sink) -> None:
    """Of a whole failover, nothing is lost on the way."""
    assert sink.before() is None
    world = FailoverWorld()
    evidence = world.run(world.approve().plan).evidence
    for written in (replace(evidence, events=evidence.events[:3]), evidence):
        sink.flush(written)
        assert sink.before() == written
