"""Failovers of mirrors that fence no source and grant nobody WRITE: people do, and no login has ALTER on a cluster."""

from __future__ import annotations

import pytest

from tanist.domain.checks import Mode, Verdict
from tanist.domain.failover.reasons import NOT_FENCED, NOT_GRANTED
from tanist.domain.records import RunStatus
from tanist.domain.rights import CLUSTER
from tanist.usecases.command import Silence
from tanist.usecases.failover.status import checks
from tanist.usecases.failover.steps.fence import ProducersWrite
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, Killed
from tests.unit.usecases.failover.mapped import MAPPED, MappedWorld
from tests.unit.usecases.failover.runs import killer, lose_source, named

SETTINGS = MAPPED | {"fence_source": False, "grant_writers": False}
ON_CLUSTER = {(operation, CLUSTER) for operation in ("ALTER", "DESCRIBE", "CLUSTER_ACTION")}


def prepared() -> MappedWorld:
    """The copy is behind, nobody writes, and this login has no right on either cluster itself."""
    world = MappedWorld(spec_fields=SETTINGS)
    world.behind()
    world.east.denied = world.west.denied = ON_CLUSTER
    return world


def points() -> list[str]:
    world, seen = prepared(), list[str]()
    world.run(world.approve().plan, seen.append)
    return seen


POINTS = points()


def assert_promoted(world: MappedWorld) -> None:
    """The worker writes nothing any more, and no ACL has changed at either cluster."""
    assert all(world.view().promotions(DR, topic) == 1 for topic in TOPICS)
    assert not any(map(world.zombie, PARTITIONS))
    assert world.source_is_as_it_was()
    assert not world.west.given
    assert not world.view().source_fences(DR)


@pytest.mark.parametrize("cut", range(len(POINTS)), ids=named(POINTS))
def test_a_planned_run_that_was_killed(cut: int) -> None:
    world = prepared()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)
    for at in PARTITIONS:
        assert len(world.found[at]) == world.east.ends[at][2], "every record of the source, once"


def test_an_unplanned_run_of_a_source_that_is_gone() -> None:
    world = prepared()
    lose_source(world)
    assert {NOT_FENCED, NOT_GRANTED} <= world.limitations(Mode.UNPLANNED).keys()
    assert world.run(world.approve(Mode.UNPLANNED).plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_the_plan_says_what_people_have_to_do() -> None:
    planned, unplanned = prepared().limitations(), prepared().limitations(Mode.UNPLANNED)
    assert "stop them yourself before the run; the run waits until no partition has taken" in planned[NOT_FENCED]
    assert "the run waits" not in unplanned[NOT_FENCED]
    assert planned[NOT_GRANTED] == unplanned[NOT_GRANTED]
    assert "grant WRITE to the producers yourself; the mirror's login keeps its own" in planned[NOT_GRANTED]
    assert not {"OTHERS_MAY_WRITE", "WRITERS_LOCKED_OUT", "NEAR_FENCE"} & planned.keys()


def test_producers_that_write_stop_a_planned_run_and_the_mirror_resumes() -> None:
    world = prepared()
    plan = world.approve().plan
    world.writing = True
    with pytest.raises(ProducersWrite, match="kept growing for"):
        world.run(plan)
    assert not any(world.view().promoted(DR, topic) for topic in TOPICS)
    world.writing = False
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_a_producer_that_begins_after_the_wait_is_drained() -> None:
    world = prepared()
    plan = world.approve().plan
    assert world.run(plan, until="fence").record.status is RunStatus.RUNNING
    for at in PARTITIONS:
        world.east.grow(at, 7)
    assert world.run(plan).record.status is RunStatus.DONE
    for at in PARTITIONS:
        assert len(world.found[at]) == world.east.ends[at][2]


def test_afterwards_status_asks_only_for_what_people_have_not_done_yet() -> None:
    """Where this login is shown ACLs."""
    world = prepared()
    world.run(world.approve().plan)
    world.west.denied = world.west.denied - {("DESCRIBE", "kafka-cluster")}
    clusters = world.clusters()
    found = {each.name: each for each in checks(clusters.snapshot(), Silence(world.clock), world.command())}
    assert [name for name, each in found.items() if each.verdict is not Verdict.PASS] == ["access"]
    assert "may not write" in found["access"].observed
    assert found["fences"].reason == "the mirror fences no source, so whoever stopped its producers keeps them stopped"


def test_nobody_asks_brokers_for_what_is_left_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the mirror is shut out, above all: this login may not be shown any ACL."""
    world = prepared()
    asked = list[object]()
    monkeypatch.setattr(type(world.west.side().opening), "shut_out", lambda *_, **__: asked.append(1))
    world.run(world.approve().plan)
    assert not asked
