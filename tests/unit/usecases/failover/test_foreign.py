"""Somebody else writes to the copy, and both logs come to have the same length."""

from __future__ import annotations

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode, Readiness
from tanist.domain.failover import forecast
from tanist.domain.records import RunStatus
from tests.builders import AT
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld


def replaced(world: FailoverWorld, records: int = 20) -> None:
    """The worker is frozen; clients of the source, and a stranger at the copy, write the same number of records."""
    world.copying = False
    world.east.grow(AT, records)
    world.west.grow(AT, records)


def names(world: FailoverWorld, mode: Mode = Mode.PLANNED) -> dict[str, bool]:
    return {each.name: each.blocks for each in world.plan(mode).plan.limitations}


@pytest.mark.parametrize("mode", Mode)
def test_as_many_foreign_records_as_are_missing_are_never_go(mode: Mode) -> None:
    """GO, 0 at risk; the planned failover was DONE, and twenty acknowledged records were nowhere."""
    world = FailoverWorld()
    replaced(world)
    assert names(world, mode)["COPY_HAS_FOREIGN_RECORDS"] is (mode is Mode.PLANNED)
    found = world.plan(mode)
    assert found.word is (Readiness.NO_GO if mode is Mode.PLANNED else Readiness.ACCEPT)
    assert forecast.at_risk(found.plan.intent, found.facts) is None


def test_a_stranger_who_writes_during_the_run_stops_it_before_the_point_of_no_return() -> None:
    world = FailoverWorld()
    plan = world.approve().plan

    def write(point: str) -> None:
        if "groups" in point and world.copying:
            replaced(world)

    with pytest.raises(NotPermitted, match=f"COPY_HAS_FOREIGN_RECORDS.*{AT}"):
        world.run(plan, write)
    assert not any(world.west.epochs.get((at, world.spec.data_id), 0) for at in PARTITIONS), "nothing is sealed"


def test_a_copy_that_may_not_be_read_is_unknown() -> None:
    world = FailoverWorld()
    world.west.denied.add(("READ", AT.topic))
    assert names(world)["COPY_WRITER_UNKNOWN"]
    assert world.plan().word is Readiness.UNKNOWN


def test_markers_of_the_mirror_and_an_empty_copy_are_no_foreign_records() -> None:
    world = FailoverWorld()
    world.west.mark(AT, world.spec.marker_id)
    world.east.mark(AT)
    end = world.west.ends[PARTITIONS[1]][2]
    world.west.ends[PARTITIONS[1]] = (end, end, end)
    assert "COPY_HAS_FOREIGN_RECORDS" not in names(world)


def test_behind_the_barrier_others_write_by_right() -> None:
    world = FailoverWorld()
    plan = world.approve().plan

    def write(point: str) -> None:
        if "canary" in point:
            world.west.grow(AT)

    assert world.run(plan, write).record.status is RunStatus.DONE
