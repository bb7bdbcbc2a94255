"""What to do next, asked at each point of a failover and of the way back, in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.failover.plan import FailoverRequest
from tanist.domain.next_steps.step import Guidance, NextStage
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.command import Silence
from tanist.usecases.failover import planning
from tanist.usecases.failover.fences import lift
from tanist.usecases.items import guidance_item
from tanist.usecases.next_steps import advise
from tanist.usecases.status.observe import StatusContext, observe
from tests import quoted
from tests.builders import DR
from tests.quoted import Quoted
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import killer, lose_source
from tests.unit.usecases.returning import returned, reverses

if TYPE_CHECKING:
    from tanist.usecases.mirror import OpenMirror


def ask(world: FailoverWorld, clusters: OpenMirror | None = None) -> Guidance:
    """As `tanist next` does; every command that it prints can be typed."""
    both, command = clusters or world.clusters(), world.command()
    reading = StatusContext(
        destination=both.destination,
        silence=Silence(command.clock),
        clusters=lambda _: both,
        context=command,
    )
    (seen,) = observe(reading, DR)
    found = advise(seen.situation, both, command)
    for step in found.steps:
        assert quoted.problem(Quoted("next", step.command, typed=True)) == "", step.command
        assert "..." not in step.command
    return found


def commands(found: Guidance) -> list[str]:
    return [each.command.split(" --destination ", 1)[0] for each in found.steps]


def keep(world: FailoverWorld, mode: Mode) -> str:
    made = planning.plan_and_keep(FailoverRequest(mode=mode), world.clusters("operator"), world.command())
    return made.plan.hash


def approve(world: FailoverWorld, plan: str) -> None:
    planning.approve_typed(plan, {}, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 3600))


def test_of_a_mirror_that_is_well_nothing_is_to_be_done() -> None:
    found = ask(FailoverWorld())
    assert (found.stage, found.steps, found.missing) == (NextStage.MIRRORING, (), ())


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failover_is_planned_approved_and_run(mode: Mode) -> None:
    world = FailoverWorld()
    if mode is Mode.UNPLANNED:
        lose_source(world)
        found = ask(world)
        assert found.stage is NextStage.SOURCE_SILENT
        assert found.steps[0].command == "tanist failover plan dr --destination west --mode unplanned"
        assert found.steps[0].decision
    plan = keep(world, mode)
    found = ask(world)
    assert (found.stage, commands(found)) == (NextStage.PLANNED, [f"tanist failover approve dr {plan}"])
    approve(world, plan)
    found = ask(world)
    assert found.stage is NextStage.APPROVED
    assert [each.command for each in found.steps] == [
        f"tanist failover run dr --destination west --plan {plan}",
    ]
    world.run(plan)
    found = ask(world, returned(world))
    assert found.stage is (NextStage.FAILED_OVER if mode is Mode.PLANNED else NextStage.OLD_SOURCE_SILENT)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_run_that_was_killed_is_finished_and_before_its_point_of_no_return_it_can_be_undone(mode: Mode) -> None:
    for point in range(60):
        world = FailoverWorld()
        if mode is Mode.UNPLANNED:
            lose_source(world)
        plan = world.approve(mode).plan
        try:
            world.run(plan, killer(point))
        except Killed:
            pass
        else:
            assert point > 5
            return
        running = world.view().unfinished(DR)
        if running is None:
            continue
        assert commands(ask(world)) == ["tanist failover status dr"], "its process may be alive"
        world.clock.jump(11)
        found = ask(world)
        finish = ["tanist failover run dr"]
        wanted = finish if running.no_return else [*finish, "tanist failover abort dr"]
        assert (found.stage, commands(found)) == (NextStage.FAILING_OVER, wanted)
    pytest.fail("no run was done")


def cut(mode: Mode, point: int) -> FailoverWorld:
    """A run that was killed there, and that nobody works at any more."""
    world = FailoverWorld()
    if mode is Mode.UNPLANNED:
        lose_source(world)
    with pytest.raises(Killed):
        world.run(world.approve(mode).plan, killer(point))
    world.clock.jump(11)
    return world


@pytest.mark.parametrize("mode", list(Mode))
def test_an_unfinished_run_whose_approval_has_expired_can_only_be_undone(mode: Mode) -> None:
    """What it offered was refused: no step is taken on an approval that is out of time."""
    world = cut(mode, 5)
    assert commands(ask(world)) == ["tanist failover run dr", "tanist failover abort dr"]
    world.clock.jump(3600)
    assert commands(ask(world)) == ["tanist failover abort dr"]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_unfinished_run_that_needs_its_source_can_only_be_undone_once_that_is_gone(mode: Mode) -> None:
    """A planned one waits for the source to be drained; an unplanned one was approved without it."""
    world = cut(mode, 5)
    running = world.view().unfinished(DR)
    assert running is not None
    assert not running.no_return
    world.east.dead = True
    undo = ["tanist failover abort dr"]
    assert commands(ask(world)) == (undo if mode is Mode.PLANNED else ["tanist failover run dr", *undo])


def test_an_unfinished_run_with_more_at_risk_than_it_tolerates_can_only_be_undone() -> None:
    """`failover run` came first, which only said again what had stopped it."""
    world = cut(Mode.UNPLANNED, 5)
    world.east.dead = False
    world.observe(MirrorState.PAUSED, PARTITIONS[0])
    assert commands(ask(world)) == ["tanist failover run dr", "tanist failover abort dr"]
    world.east.grow(PARTITIONS[0], 500)
    world._heartbeat()
    assert commands(ask(world)) == ["tanist failover abort dr"]


def test_a_source_that_answers_again_makes_an_approved_unplanned_failover_a_decision() -> None:
    """It hid the planned one, which loses nothing."""
    world = FailoverWorld()
    lose_source(world)
    plan = keep(world, Mode.UNPLANNED)
    approve(world, plan)
    world.east.dead, world.copying = False, True
    for _ in range(5):
        world.clock.wait(1)
    found = ask(world)
    assert found.stage is NextStage.APPROVED
    assert [each.decision for each in found.steps] == ["fail over, planned", "fail over although the source answers"]
    planned = keep(world, Mode.PLANNED)
    approve(world, planned)
    assert ask(world).steps[0].command.endswith(f"--plan {planned}")


def test_a_plan_that_does_not_cover_what_is_so_now_is_not_offered() -> None:
    world = FailoverWorld()
    keep(world, Mode.PLANNED)
    assert ask(world).stage is NextStage.PLANNED
    world.observe(MirrorState.FAILED, PARTITIONS[0], error="RECORD_TOO_LARGE")
    assert ask(world).stage is NextStage.NOT_READY


def test_a_failed_partition_is_resumed_once_its_cause_is_mended_and_a_foreign_record_needs_another_copy() -> None:
    world = FailoverWorld()
    world.observe(MirrorState.FAILED, PARTITIONS[0], error="RECORD_TOO_LARGE")
    found = ask(world)
    assert (found.stage, commands(found)[:1]) == (NextStage.NOT_READY, ["tanist mirrors resume dr"])
    assert found.steps[0].decision
    assert any(each.startswith("PARTITION_FAILED: ") for each in found.missing)


def test_paused_topics_are_resumed() -> None:
    world = FailoverWorld()
    topic = world.view().topic(DR, "orders")
    assert topic is not None
    world.worker.append([replace(topic, desired=DesiredState.PAUSED)], world.soon())
    world.observe(MirrorState.PAUSED, *(at for at in PARTITIONS if at.topic == "orders"))
    found = ask(world)
    assert found.steps[0].command == "tanist mirrors resume dr --destination west --topic orders"
    assert found.steps[0].decision is None


def test_a_mirror_that_has_failed_over_is_reversed_once_its_old_source_answers() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    found = ask(world, returned(world))
    assert found.stage is NextStage.FAILED_OVER
    assert commands(found) == ["tanist mirrors reverse dr"]
    assert "--reason" in found.steps[0].command
    reverses(world)


@pytest.mark.parametrize(
    ("silent_s", "first"),
    [
        (0, "tanist fence show dr"),
        (6, "tanist fence show dr"),
        (11, "tanist fetcher run"),
        (29, "tanist fetcher run"),
        (31, "tanist fetcher run"),
    ],
)
def test_pending_source_fences_are_left_to_a_fetcher_and_one_that_misses_its_reports_is_replaced(
    silent_s: int, first: str
) -> None:
    """`fence set` was first for half a minute after the last worker had died: it leaves pending fences to a worker."""
    world = FailoverWorld()
    lose_source(world)
    world.run(world.approve(Mode.UNPLANNED).plan)
    world.east.dead = False
    world._heartbeat()
    world.clock.jump(silent_s)
    found = ask(world, returned(world))
    assert (found.stage, commands(found)) == (NextStage.TAILS_PENDING, [first, "tanist failback survey dr"])


def test_a_source_fence_that_is_not_pending_is_set_again_by_its_command() -> None:
    """Whenever a fetcher has reported itself."""
    world = FailoverWorld()
    lose_source(world)
    world.run(world.approve(Mode.UNPLANNED).plan)
    world.east.dead = False
    settled(world, debts(world))
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    world.clock.jump(11)
    assert commands(ask(world, returned(world)))[0] == "tanist fence set dr"


def test_the_json_has_the_fields_that_the_command_line_promises() -> None:
    item = guidance_item(ask(FailoverWorld()))
    assert set(item) == {"mirror", "destination", "stage", "missing", "next"}
