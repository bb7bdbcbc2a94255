"""A failover that is run one step at a time, each by somebody else, is the same failover."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import ApprovalUsed, NotPermitted
from tanist.domain.checks import Mode
from tanist.domain.errors import Interrupted, Misconfigured, RunUnderWay
from tanist.domain.failover.limitations import limitations
from tanist.domain.records import FailoverRun, RunStatus
from tanist.usecases.failover import abort
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.failover.unfinished_runs import left_alone
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, UNPLANNED, assert_promoted, killer

if TYPE_CHECKING:
    from tanist.usecases.failover.route import Step

STEPS = [step.id for step in ROUTE]
POINTS = {Mode.PLANNED: PLANNED, Mode.UNPLANNED: UNPLANNED}
MODES = pytest.mark.parametrize("mode", list(Mode))


def approved(mode: Mode) -> tuple[FailoverWorld, str]:
    world = FailoverWorld()
    world.behind()
    world.east.dead = mode is Mode.UNPLANNED
    return world, world.approve(mode).plan


def on_record(world: FailoverWorld, plan: str) -> FailoverRun:
    found = world.view()[f"failover/{DR}/{plan}"]
    assert isinstance(found, FailoverRun)
    return found


@MODES
def test_step_by_step_each_by_another_runner_at_once(mode: Mode) -> None:
    """After each call its step holds, the next is untouched, the run is nobody's, and nobody waits for a heartbeat."""
    world, plan = approved(mode)
    for n, step in enumerate(STEPS):
        began = world.clock.monotonic()
        outcome = world.run(plan, until=step, runner=f"task-{n}@host-{n}")
        assert list(outcome.left) == STEPS[n + 1 :]
        assert world.clock.monotonic() - began < 5 or step in {"fence", "drain"}, "it waited for a dead heartbeat"
        done = {event.step for event in outcome.evidence.events if event.what == "done"}
        assert done - {"end"} == set(STEPS[: n + 1])
        if step != STEPS[-1]:
            assert (outcome.record.status, outcome.record.runner) == (RunStatus.RUNNING, "")
            assert on_record(world, plan) == outcome.record
    assert on_record(world, plan).status is RunStatus.DONE
    assert_promoted(world)


@MODES
def test_a_step_that_is_done_already_is_done_at_once(mode: Mode) -> None:
    """Also once the run is over, with a step or without: who tries again must not be asked for a new approval.

    Groups are translated by every call that comes past them, until there is no return.
    """
    world, plan = approved(mode)
    for at, step in enumerate(STEPS):
        world.run(plan, until=step)
        written = len(world.west.states["__mirror_state"])
        for earlier in STEPS[: at + 1]:
            if step == earlier == "groups":
                continue
            began = world.clock.monotonic()
            assert list(world.run(plan, until=earlier).left) == STEPS[at + 1 :]
            assert world.clock.monotonic() == began
        assert len(world.west.states["__mirror_state"]) == written
    written = len(world.west.states["__mirror_state"])
    outcome = world.run(plan)
    assert (outcome.record.status, outcome.left) == (RunStatus.DONE, ())
    assert len(world.west.states["__mirror_state"]) == written


@MODES
@pytest.mark.parametrize("step", ROUTE.rows, ids=STEPS)
def test_until_a_step_does_everything_before_it(mode: Mode, step: Step) -> None:
    world, plan = approved(mode)
    outcome = world.run(plan, until=step.id)
    assert list(outcome.left) == STEPS[STEPS.index(step.id) + 1 :]
    assert world.run(plan, until=STEPS[-1]).record.status is RunStatus.DONE
    assert_promoted(world)


@MODES
@pytest.mark.parametrize("step", STEPS)
def test_killed_in_the_middle_of_a_single_step(mode: Mode, step: str) -> None:
    """At its last point: done, and nobody could say so any more."""
    world, plan = approved(mode)
    with pytest.raises(Killed):
        world.run(plan, killer(POINTS[mode].index(f"after:{step}")), until=step)
    assert on_record(world, plan).runner == "eve@host"
    assert list(world.run(plan, until=step).left) == STEPS[STEPS.index(step) + 1 :]
    assert step == STEPS[-1] or on_record(world, plan).runner == ""
    assert world.run(plan, until=STEPS[-1]).record.status is RunStatus.DONE
    assert_promoted(world)


def test_every_call_looks_at_the_approval() -> None:
    world = FailoverWorld()
    plan = world.approve(valid=60).plan
    world.run(plan, until="fence")
    world.clock.jump(7200)
    world.tick()
    with pytest.raises(NotPermitted, match="APPROVAL_EXPIRED"):
        world.run(plan, until="groups")
    assert on_record(world, plan).runner == "", "whoever aborts it, or has it approved again, waits for nobody"


def test_bad_news_between_two_steps_stop_the_next() -> None:
    world, plan = approved(Mode.PLANNED)
    world.run(plan, until="fence")
    world.east.dead = True
    with pytest.raises(NotPermitted, match="SOURCE_DOWN"):
        world.run(plan, until="drain")


def test_while_a_run_waits_for_its_next_step_no_other_starts_and_it_can_be_aborted() -> None:
    world, plan = approved(Mode.PLANNED)
    other = world.approve(Mode.PLANNED, "orders").plan
    world.run(plan, until="groups")
    with pytest.raises(RunUnderWay, match="of nobody is unfinished"):
        world.run(other, until="hold")
    aborted = abort.abort(world.clusters(), world.tools(), world.command())
    assert aborted.record.status is RunStatus.ABORTED
    assert world.source_is_as_it_was()
    with pytest.raises(ApprovalUsed):
        world.run(plan, until="seal")


def test_a_step_that_is_not_done_in_time_releases_the_run_too() -> None:
    world, plan = approved(Mode.PLANNED)
    world.run(plan, until="hold")
    with pytest.raises(Interrupted):
        world.run(plan, seconds=0, until="fence")
    began = world.clock.monotonic()
    world.run(plan, until="hold", runner="another@host")
    assert world.clock.monotonic() == began


def test_two_at_one_step_are_one_too_many() -> None:
    """The run is not released while somebody is at work on it."""
    world, plan = approved(Mode.PLANNED)
    world.run(plan, until="hold")
    refused: list[str] = []

    def second(point: str) -> None:
        if point != "before:drain" or refused:
            return
        refused.append(point)
        busy = world.clock.meanwhile
        world.clock.meanwhile = lambda: beat(busy)
        with pytest.raises(RunUnderWay, match="first@host holds the lock"):
            world.run(plan, until="groups", runner="second@host")
        world.clock.meanwhile = busy

    def beat(busy: object) -> None:
        held = world.view().lock(DR)
        assert held is not None
        world.worker.append([replace(held, at=world.clock.now())], world.soon())
        assert callable(busy)
        busy()

    world.run(plan, second, until="groups", runner="first@host")
    assert refused


def test_a_step_that_the_route_has_not() -> None:
    world, plan = approved(Mode.PLANNED)
    written = len(world.west.states["__mirror_state"])
    with pytest.raises(Misconfigured, match="no step 'jump': hold, fence"):
        world.run(plan, until="jump")
    assert len(world.west.states["__mirror_state"]) == written


def test_steps_after_the_point_of_no_return_count_those_before_it_as_done() -> None:
    world, plan = approved(Mode.PLANNED)
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("seal:half")))
    world.east.dead = True
    intent = world.plan(Mode.PLANNED).plan.intent
    facts = world.plan(Mode.PLANNED).facts
    assert [step.id for step in ROUTE.remaining(intent, facts, until="drain")] == ["hold", "fence", "drain"], (
        "it is another run's"
    )
    assert {each.name for each in limitations(intent, facts) if each.blocks} >= {"PRODUCER_FENCED"}
    assert list(world.run(plan, until="drain").left) == STEPS[4:]


def test_a_run_is_left_alone_only_if_nobody_moves_it_for_longer_than_a_gap_between_two_steps() -> None:
    """Between two steps nobody is at work; still, whoever would go on with such a run watches it first."""
    world, plan = approved(Mode.PLANNED)
    assert left_alone(world.clusters("eve"), world.command()) is None
    world.run(plan, until="hold")
    found = left_alone(world.clusters("eve"), world.command())
    assert found is not None
    assert found.plan == plan

    def next_step() -> None:
        world.worker.append([replace(on_record(world, plan), at=world.clock.now())], world.soon())

    world.clock.meanwhile = next_step
    with pytest.raises(RunUnderWay, match=f"running plan {plan}"):
        left_alone(world.clusters("eve"), world.command())
