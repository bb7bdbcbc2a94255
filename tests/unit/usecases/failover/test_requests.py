"""Which question an approval answers, and what takes it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, cast

import pytest

from tanist.domain.approval.choosing import answer_to
from tanist.domain.approval.entries import (
    Approval,
    ApprovalUsed,
    NoApproverTopic,
    NotApproved,
    Withdrawal,
    approvals,
    run_request,
)
from tanist.domain.checks import Mode
from tanist.domain.fences import FenceStatus
from tanist.domain.records import RunStatus
from tanist.usecases.approvals import ApprovalTerms, earlier_answer
from tanist.usecases.approvals import withdraw as withdrawn
from tanist.usecases.failover import abort, planning
from tanist.usecases.failover.planning import AnotherPlan, FailoverRequest, PlanNotKept
from tanist.usecases.failover.run import run
from tests.builders import DR
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import FailoverWorld, Killed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.plan import Plan
    from tanist.domain.names import MirrorName
    from tanist.ports.approvals import Approvals
    from tanist.ports.clock import Deadline
    from tanist.ports.state import StateStore

FIRST, SECOND = run_request("airflow/mirror_failover", "1"), run_request("airflow/mirror_failover", "2")


@pytest.fixture
def unchanged(world: FailoverWorld) -> Iterator[FailoverWorld]:
    """Whatever is tried with it: no run is on record, and producers are free at the source."""
    yield world
    assert world.view().failovers(DR) == ()
    assert world.source_is_as_it_was()


def withdraw(world: FailoverWorld, plan: str, request: str = "") -> None:
    withdrawn(plan, world.clusters(), world.command(), request=request, reason="op said no")


def test_a_yes_to_one_run_of_an_orchestrator_permits_no_other(unchanged: FailoverWorld) -> None:
    """Stopped before it began, it left its approval behind, and any later run of the same plan took it."""
    plan = unchanged.approve(request=FIRST).plan
    with pytest.raises(NotApproved, match=f"cannot be used here: it answers the request {FIRST}"):
        unchanged.run(plan, request=SECOND)


def test_a_command_does_not_use_the_yes_to_a_run_of_an_orchestrator(unchanged: FailoverWorld) -> None:
    plan = unchanged.approve(request=FIRST).plan
    with pytest.raises(NotApproved, match="cannot be used here"):
        unchanged.run(plan)


def test_a_run_of_an_orchestrator_does_not_use_the_yes_to_a_command(unchanged: FailoverWorld) -> None:
    """Whoever approved it has not seen that run; nor does one from before approvals named what they answer."""
    plan = unchanged.approve().plan
    (only,) = approvals(unchanged.west.approvals)
    with pytest.raises(NotApproved, match="cannot be used here"):
        unchanged.run(plan, request=FIRST)
    unchanged.west.approvals[:] = [replace(only, request="")]
    with pytest.raises(NotApproved, match="cannot be used here"):
        unchanged.run(plan, request=FIRST)


def test_each_command_that_approves_names_another_request(world: FailoverWorld) -> None:
    first, second = world.approve(), world.approve()
    assert first.request.startswith(f"command/{first.plan}/")
    assert first.request != second.request


def test_an_approval_from_before_requests_permits_a_command(world: FailoverWorld) -> None:
    plan = world.approve().plan
    world.west.approvals[:] = [replace(each, request="") for each in approvals(world.west.approvals)]
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_run_continues_on_the_yes_that_it_began_on_whoever_goes_on_with_it(world: FailoverWorld) -> None:
    """Withdrawn once a failover has begun on it, it permits that failover all the same: half of one is worse."""
    plan = world.approve(request=FIRST).plan
    world.run(plan, until="fence", request=FIRST)
    withdraw(world, plan, FIRST)
    withdraw(world, plan)
    world.run(plan, until="groups", request=SECOND)
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_no_takes_back_every_earlier_yes_to_the_plan(unchanged: FailoverWorld) -> None:
    plan = unchanged.approve().plan
    withdraw(unchanged, plan)
    with pytest.raises(NotApproved, match=r"was withdrawn: op said no \(approver\)"):
        unchanged.run(plan)


def test_a_no_to_one_run_does_not_end_another_run_of_the_same_plan(world: FailoverWorld) -> None:
    """A plan does not change with the clock: whoever says no to one run has not been asked about the other."""
    plan = world.approve(request=SECOND).plan
    withdraw(world, plan, FIRST)
    withdraw(world, plan)
    assert isinstance(answer_to(world.west.approvals, DR, FIRST), Withdrawal)
    assert isinstance(answer_to(world.west.approvals, DR, SECOND), Approval)
    assert world.run(plan, request=SECOND).record.status is RunStatus.DONE


def test_a_no_to_a_run_voids_its_yes_to_whatever_plan_it_was(unchanged: FailoverWorld) -> None:
    plan = unchanged.approve(request=FIRST).plan
    withdraw(unchanged, "another", FIRST)
    with pytest.raises(NotApproved, match="was withdrawn"):
        unchanged.run(plan, request=FIRST)


def test_nothing_on_record_answers_a_run_that_nobody_has_answered(world: FailoverWorld) -> None:
    world.approve(request=SECOND)
    world.approve()
    assert answer_to(world.west.approvals, DR, FIRST) is None


def test_an_answer_that_an_earlier_try_is_about_to_write_is_waited_for(world: FailoverWorld) -> None:
    """The process of that try lives on for a while after it was given up; who asks again at once asks twice."""
    destination, command = world.clusters().destination, world.command()
    waited = [0]

    def writes() -> None:
        world.tick()
        waited[0] += 1
        if waited[0] == 3:
            world.approve(request=FIRST)

    world.clock.meanwhile = writes
    found = earlier_answer(destination, DR, FIRST, command, 45.0)
    assert isinstance(found, Approval)
    assert waited == [3], "and not longer than that"
    began = world.clock.monotonic()
    assert earlier_answer(destination, DR, SECOND, command, 45.0) is None
    assert world.clock.monotonic() - began == 45.0


def test_a_first_question_is_asked_again_where_nobody_has_approved_anything_yet(world: FailoverWorld) -> None:
    """The topic of approvals did not exist, and the second try of the first gate failed for it."""
    destination, command = world.clusters().destination, world.command()

    class NoTopic:
        def all(self, _by: Deadline) -> NoReturn:
            raise NoApproverTopic("west", "west:9092")

    empty = replace(destination, approvals=cast("Approvals", NoTopic()))
    assert earlier_answer(empty, DR, FIRST, command, 4.0) is None


def test_a_later_yes_stands_after_a_no(world: FailoverWorld) -> None:
    plan = world.approve().plan
    withdraw(world, plan)
    world.approve()
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_yes_that_is_written_after_its_request_was_withdrawn_is_void(unchanged: FailoverWorld) -> None:
    """The process that wrote it was frozen between the answer and the writing, and its run is over."""
    plan = unchanged.plan().plan.hash
    withdraw(unchanged, plan, FIRST)
    unchanged.approve(request=FIRST)
    with pytest.raises(NotApproved, match="was withdrawn"):
        unchanged.run(plan, request=FIRST)


def test_a_request_that_was_withdrawn_takes_no_other_yes_with_it(world: FailoverWorld) -> None:
    plan = world.approve(request=FIRST).plan
    world.approve()
    withdraw(world, plan, FIRST)
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_no_that_comes_while_a_run_begins_is_heard(unchanged: FailoverWorld) -> None:
    """Asked before the mirror was taken, the approvals are asked again behind it."""
    plan = unchanged.approve().plan
    clusters = unchanged.clusters("operator")
    side = clusters.destination

    def late(topic: str, mirror: MirrorName | None, by: Deadline, **how: bool) -> StateStore:
        withdraw(unchanged, plan)
        return side.open_store(topic, mirror, by, **how)

    there = replace(side, open_store=late)
    with pytest.raises(NotApproved, match="was withdrawn"):
        run(plan, replace(clusters, destination=there), unchanged.tools(), unchanged.command())


def test_an_aborted_run_has_used_its_yes(world: FailoverWorld) -> None:
    plan = world.approve(request=FIRST).plan

    def kill(point: str) -> None:
        if point == "after:fence":
            raise Killed

    with pytest.raises(Killed):
        world.run(plan, kill, request=FIRST)
    abort.abort(world.clusters("operator"), world.tools(), world.command())
    with pytest.raises(ApprovalUsed, match="was used by a run that is ABORTED"):
        world.run(plan, request=FIRST)


def answer(world: FailoverWorld, asked: Plan, of: str = "") -> None:
    """A yes to what was `asked`, given now; or to another hash, with the words of that."""
    wanted = FailoverRequest(mode=asked.intent.mode, loss_tolerance=asked.intent.loss_tolerance)
    planning.approve(
        of or asked.hash,
        wanted,
        world.clusters(),
        world.command(),
        terms=ApprovalTerms.of("drill", 60),
        shown=asked.canonical_plan,
    )


def test_a_yes_is_not_void_because_less_speaks_against_the_plan_than_when_it_was_asked(world: FailoverWorld) -> None:
    """A fence that an undone failover had left was lifted between question and answer: the approver's yes was lost."""
    world.run(world.approve().plan, until="fence")
    world.east.dead = True
    abort.abort(world.clusters(), world.tools(), world.command())
    world.east.dead = False
    asked = world.plan().plan
    assert "SOURCE_FENCED" in {each.name for each in asked.limitations}
    assert settled(world, debts(world)) == {FenceStatus.LIFTED}
    assert world.plan().plan.hash != asked.hash
    answer(world, asked)
    assert world.run(asked.hash).record.status is RunStatus.DONE


def test_a_yes_is_void_where_more_speaks_against_the_plan_than_when_it_was_asked(unchanged: FailoverWorld) -> None:
    """The words that were shown approve nothing that they do not say, nor another plan's hash."""
    asked = unchanged.plan(Mode.UNPLANNED).plan
    before = unchanged.west.topics["orders"]
    unchanged.west.topics["orders"] = replace(before, configs={**before.configs, "retention.ms": "1000"})
    with pytest.raises(AnotherPlan, match="COPY_CONFIGS_ALTERED"):
        answer(unchanged, asked)
    unchanged.west.topics["orders"] = before
    with pytest.raises(PlanNotKept):
        answer(unchanged, asked, of=asked.hash[::-1])
    assert unchanged.west.approvals == []
