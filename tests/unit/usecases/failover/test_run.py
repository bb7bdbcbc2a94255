"""Killed after and inside each step, with and without losing the source: it ends on the same approval, or says why."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.checks import Mode
from tanist.domain.compaction import Holes
from tanist.domain.errors import ConnectionLost, Interrupted, TanistError
from tanist.domain.failover.facts import ObservedTopic, fence_settled
from tanist.domain.fences import FencedTopic, FenceStatus
from tanist.domain.records import RunStatus
from tanist.domain.states import MirrorState
from tanist.domain.topic_configs import MIN_ISR
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import planning
from tanist.usecases.failover.approval_gate import ApprovalVoid
from tanist.usecases.failover.items import outcome_item
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.failover.steps.fence import FenceLeaks
from tests.builders import DR
from tests.fakes.failover import MemoryFencing
from tests.fakes.topics import MemoryTopics
from tests.unit.usecases.failover.in_memory import DATA, FILLER, PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import (
    PLANNED,
    TAIL,
    UNPLANNED,
    assert_promoted,
    killer,
    lose_source,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tanist.ports.clock import Deadline


def test_lineage_that_was_stored_is_not_determined_again() -> None:
    """What is stored may be in use already: another end, found later, is another history."""
    world = FailoverWorld()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("seal:lineage")))
    stored = world.view().lineage(DR)
    for at in PARTITIONS:
        world.west.grow(at, 5, DATA)
    assert world.run(plan).record.status is RunStatus.DONE
    assert world.view().lineage(DR) == stored


def test_every_step_of_the_route_can_be_cut_before_and_after() -> None:
    for seen in (PLANNED, UNPLANNED):
        for step in ROUTE:
            assert {f"before:{step.id}", f"after:{step.id}"} <= set(seen)


def test_a_planned_failover_loses_nothing_and_leaves_nobody_writing() -> None:
    world = FailoverWorld(writing=True)
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert_promoted(world)
    view = world.view()
    assert {each.status for each in view.source_fences(DR)} == {"proved"}
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)
    assert world.moved == [(tuple(TOPICS), (".*",))]
    assert {"begins", "done"} == {event.what for event in outcome.evidence.events if event.step == "groups"}
    for at in PARTITIONS:
        assert world.west.ends[at][2] >= world.east.ends[at][2]


@pytest.mark.parametrize("lost", [False, True], ids=["", "and the source lost"])
@pytest.mark.parametrize("cut", range(len(PLANNED)), ids=named(PLANNED))
def test_a_planned_run_that_was_killed(cut: int, lost: bool) -> None:
    """Losing the source before the point of no return stops it by name; after it nothing does."""
    world = FailoverWorld()
    world.behind()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    world.east.dead = lost
    before_return = cut <= PLANNED.index("before:seal")
    if lost and before_return:
        with pytest.raises(NotPermitted, match="SOURCE_DOWN"):
            world.run(plan)
        assert world.west.deny == set(), "nothing was opened"
        return
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


@pytest.mark.parametrize("holes", [Holes.REFUSE, Holes.COPIES])
@pytest.mark.parametrize("cut", range(len(UNPLANNED)), ids=named(UNPLANNED))
def test_an_unplanned_run_that_was_killed(cut: int, holes: Holes) -> None:
    """The reserve of a compacted topic is made of gap markers, or of copies where its holes are."""
    world = FailoverWorld()
    world.spec = replace(world.spec, holes=holes)
    world.worker.append([world.spec], world.soon())
    lose_source(world)
    planned = world.plan(Mode.UNPLANNED)
    assert planned.forecast.offsets_at_risk == TAIL * len(PARTITIONS)
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)
    assert {each.status for each in world.view().source_fences(DR)} == {"owed"}
    assert_reserved(world)


def assert_reserved(world: FailoverWorld) -> None:
    """No offset that the source has used has a record of the new primary, nor will it have one."""
    told = {each.topic: each for each in world.view().lineage(DR)}
    for at in PARTITIONS:
        source_end = world.east.ends[at][2]
        entry = told[at.topic]
        copied, reserved = entry.old_ends[at.partition], entry.reserve_ends[at.partition]
        assert copied < source_end <= reserved <= world.west.ends[at][2]
        nobodys = world.west.control | world.west.repeats
        assert all((at, offset) in nobodys for offset in range(copied, reserved))
        assert world.west.ends[at][2] - reserved < 10, "the producer fence, the canary, and what a fence repeats"


def test_a_marker_that_lands_late_makes_the_reserve_longer_and_lineage_says_so() -> None:
    world = FailoverWorld()
    lose_source(world)
    plan = world.approve(Mode.UNPLANNED).plan

    def late(point: str) -> None:
        if point == "seal:reserving":
            for at in PARTITIONS:
                world.west.mark(at, FILLER)

    world.run(plan, late)
    assert_promoted(world)
    assert_reserved(world)


def test_nothing_is_reserved_where_it_is_not_wanted() -> None:
    world = FailoverWorld()
    lose_source(world)
    request = FailoverRequest(mode=Mode.UNPLANNED, reserve=0)
    made = planning.plan(request, world.clusters(), world.command())
    assert made.reserve.offsets == 0
    approved = planning.approve(
        made.plan.hash, request, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 3600.0)
    )
    outcome = world.run(approved.plan)
    assert_promoted(world)
    assert set(outcome_item(outcome, "")["may_be_reused"]) == {str(at) for at in PARTITIONS}
    assert all(each.old_ends == each.reserve_ends for each in world.view().lineage(DR))


def test_an_approval_of_before_is_good_while_only_time_makes_the_reserve_too_small() -> None:
    """Approved within seconds, run minutes later: the estimate has grown with every second since."""
    world = FailoverWorld()
    lose_source(world)
    plan = world.approve(Mode.UNPLANNED).plan
    world.clock.jump(1_800)
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_after_the_point_of_no_return_neither_expiry_nor_a_lost_approval_stops_it() -> None:
    world = FailoverWorld()
    plan = world.approve(valid=60).plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("seal:half")))
    world.clock.jump(7200)
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_before_the_point_of_no_return_expiry_stops_it() -> None:
    world = FailoverWorld()
    plan = world.approve(valid=60).plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("after:fence")))
    world.clock.jump(7200)
    world.tick()
    with pytest.raises(NotPermitted, match="APPROVAL_EXPIRED"):
        world.run(plan)


def test_a_source_lost_inside_the_drain_stops_the_run_by_name() -> None:
    world = FailoverWorld(writing=True)
    world.copying = False
    plan = world.approve().plan
    waits = [0]

    def meanwhile() -> None:
        waits[0] += 1
        world.east.dead = waits[0] > 20

    world.clock.meanwhile = meanwhile
    with pytest.raises(ApprovalVoid, match="SOURCE_DOWN"):
        world.run(plan)
    assert world.west.deny == set()


def test_progress_keeps_an_approval_and_bad_news_void_it() -> None:
    world = FailoverWorld(writing=True)
    plan = world.approve().plan
    world.clock.wait(1)
    world.observe(MirrorState.FAILED, PARTITIONS[0])
    with pytest.raises(NotPermitted, match="PARTITION_STOPPED_COPYING"):
        world.run(plan)
    world.observe(MirrorState.MIRRORING, PARTITIONS[0])
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_fence_that_leaks_is_undone_and_never_proved() -> None:
    """Whoever passes the fence, a super user for one, moves the ends: the window of the proof begins anew each time."""
    world = FailoverWorld()
    plan = world.approve().plan

    def leak() -> None:
        world.tick()
        world.east.grow(PARTITIONS[0])

    world.clock.meanwhile = leak
    with pytest.raises(FenceLeaks, match=str(PARTITIONS[0])):
        world.run(plan)
    assert world.source_is_as_it_was()


def test_a_fence_is_proved_by_ends_that_have_rested_for_the_whole_window() -> None:
    """The end of a transaction that was open moves them once more."""
    world = FailoverWorld()
    plan = world.approve().plan
    began, moved = world.clock.monotonic(), list[float]()

    def late() -> None:
        world.tick()
        if world.clock.monotonic() - began < 5:
            moved.append(world.clock.monotonic())
            world.east.grow(PARTITIONS[0])

    world.clock.meanwhile = late
    world.run(plan, until="fence")
    assert world.clock.monotonic() - moved[-1] >= world.tools().patience.proof


def test_a_fence_that_cannot_be_seen_is_not_taken_for_standing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planned failover stops there, and goes on once the source says that it stands."""
    world = FailoverWorld()
    world.behind()
    plan = world.approve().plan
    world.run(plan, until="fence")
    with monkeypatch.context() as source:
        source.setattr(MemoryFencing, "_stands", lambda _, each: UnknownTopicOrPartition(each.topic))
        with pytest.raises(Interrupted, match="next: fence"):
            world.run(plan, seconds=30)
    assert not world.moved
    assert world.run(plan).record.status is RunStatus.DONE


@pytest.mark.parametrize(
    ("mode", "status", "stands", "settled"),
    [
        (Mode.PLANNED, FenceStatus.PROVED, True, True),
        (Mode.PLANNED, FenceStatus.PROVED, None, False),
        (Mode.PLANNED, FenceStatus.PROVED, False, False),
        (Mode.PLANNED, FenceStatus.PENDING, None, False),
        (Mode.UNPLANNED, FenceStatus.PROVED, None, True),
        (Mode.UNPLANNED, FenceStatus.PROVED, False, False),
        (Mode.UNPLANNED, FenceStatus.PENDING, None, True),
        (Mode.UNPLANNED, FenceStatus.IN_FORCE, True, False),
    ],
)
def test_what_is_settled_about_a_fence(mode: Mode, status: FenceStatus, stands: bool | None, settled: bool) -> None:
    """Only where the source is dead is unknown good enough: no more can be had of it."""
    fence = FencedTopic(topic="orders", status=status, wanted_by="plan")
    assert fence_settled(ObservedTopic(topic="orders", source_fence=fence, fence_stands=stands), mode) is settled


def dying(monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool]) -> None:
    """A connection is lost in the n-th look, counted from 1."""
    looks, look = count(1), MemoryTopics.describe

    def describe(self: MemoryTopics, names: Sequence[str], by: Deadline, configs: Collection[str] | None = None) -> Any:
        if configs is not None and MIN_ISR in configs and when(next(looks)):
            raise ConnectionLost("broker 3 of west: closed by the other side")
        return look(self, names, by, configs)

    monkeypatch.setattr(MemoryTopics, "describe", describe)


def test_the_topics_of_a_failover_are_described_once_in_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 partitions each description is as large as all leaders: replicas in sync had one of their own."""
    world, looks, described = FailoverWorld(), list[object](), list[object]()
    look, describe = Observer.see, MemoryTopics.describe

    def seen(self: Observer, *how: Any, **more: Any) -> Any:
        looks.append(how)
        return look(self, *how, **more)

    def noting(self: MemoryTopics, names: Sequence[str], by: Deadline, configs: Collection[str] | None = None) -> Any:
        if set(names) & set(TOPICS) and self.cluster is world.west:
            described.append(names)
        return describe(self, names, by, configs)

    monkeypatch.setattr(Observer, "see", seen)
    monkeypatch.setattr(MemoryTopics, "describe", noting)
    world.plan()
    assert len(described) == len(looks) > 0


def test_a_broker_that_dies_while_the_run_looks_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again, also when it has taken over from another one and translates once more."""
    world = FailoverWorld()
    world.behind()
    plan = world.approve().plan
    world.run(plan, until="groups")
    dying(monkeypatch, lambda n: n % 3 == 0)
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_a_run_that_cannot_see_what_it_has_done_is_interrupted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever comes next takes over at once."""
    world = FailoverWorld()
    plan = world.approve().plan
    with monkeypatch.context() as broken:
        dying(broken, lambda n: n > 1)
        with pytest.raises(Interrupted, match="step hold failed: CONNECTION_LOST"):
            world.run(plan, seconds=30)
    began = world.clock.monotonic()
    world.run(plan, until="hold")
    assert world.clock.monotonic() == began


def test_a_partition_that_a_worker_has_stopped_already_is_left_as_it_is() -> None:
    """What it observed last stays, and the others are stopped and counted all the same."""
    world = FailoverWorld()
    world.behind()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("before:generation")))
    world.observe(MirrorState.STOPPED, PARTITIONS[0])
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_a_missed_drain_undoes_everything_by_itself() -> None:
    world = FailoverWorld(writing=True)
    plan = world.approve().plan
    world.copying = False
    world.tick()
    with pytest.raises(TanistError, match="DRAIN_MISSED"):
        world.run(plan)
    assert world.source_is_as_it_was()
    assert world.sink.kept is not None
    assert world.sink.kept.events[-1].step == "abort"


def test_an_approval_that_was_left_over_begins_a_plan_that_is_done_anew() -> None:
    """Two people approve one plan. Were the second approval run too, its abort would lift the first run's fence."""
    world = FailoverWorld()
    world.approve()
    plan = world.approve().plan
    assert world.run(plan).record.status is RunStatus.DONE
    with pytest.raises(NotPermitted, match="ALREADY_PROMOTED"):
        world.run(plan, runner="bob@host")
    (run,) = world.view().failovers(DR)
    assert run.status is RunStatus.DONE
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)
