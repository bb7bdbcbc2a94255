"""A minute of storm, and that its schedule is the seed's."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tanist.demo.screen import Screen
from tanist.wire.clock import SystemClock
from tests.storm.schedule import TRACKS, Kind
from tests.storm.storm import run

if TYPE_CHECKING:
    from pathlib import Path

SEED = 7
SESSION_SECONDS = 8.0


def test_the_schedule_is_a_function_of_the_seed() -> None:
    for track in TRACKS:
        assert list(islice(track.faults(1), 50)) == list(islice(track.faults(1), 50))
        assert list(islice(track.faults(1), 50)) != list(islice(track.faults(2), 50))


def test_every_kind_of_fault_occurs_and_some_freezes_outlive_the_session() -> None:
    faults = [fault for track in TRACKS for fault in islice(track.faults(SEED), 100)]
    assert {fault.kind for fault in faults} == set(Kind)
    freezes = [fault.lasts for fault in faults if fault.kind is Kind.FREEZE_WORKER]
    assert min(freezes) < 1
    assert max(freezes) > SESSION_SECONDS


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_minute_of_storm_loses_nothing(tmp_path: Path) -> None:
    clock = SystemClock()
    outcome = run(Screen(Console(soft_wrap=True), clock), clock, seconds=60, seed=SEED, directory=tmp_path)
    print(*outcome.lines(), sep="\n")  # noqa: T201 -- shown when it fails
    assert outcome.ok, outcome.lines()
    assert outcome.verdict.records > 10_000
    assert sum(outcome.faults.values()) > 10
