"""Each permission of the table is taken away once: `doctor` names it, and no failover begins or goes on without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from tanist.domain.approval.entries import APPROVALS_TOPIC, UnsafeApproverTopic
from tanist.domain.checks import Mode, Verdict
from tanist.domain.errors import AuthorizationFailed
from tanist.domain.fences import FenceStatus
from tanist.domain.records import RunStatus
from tanist.domain.rights import CLUSTER, TABLE, ClusterRole, LoginRole, Notice, Requirement, Use, step_needs
from tanist.usecases.failover import abort
from tanist.usecases.failover.route import STEP_IDS
from tanist.usecases.failover.run import run
from tanist.usecases.failover.step import StepRefused
from tanist.usecases.status import doctor
from tests.builders import DR
from tests.fakes.failover import MemoryApprovals
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from tests.fakes.failover import GuardedCluster

REPORTED = [each for each in TABLE if each.notice is Notice.REPORTED and each.who is LoginRole.MIRROR]
_OF_OTHERS = {Use.GROUPS, Use.RECREATE, Use.FOLLOW, Use.MAPPED, Use.POSITIONS}
"""Not of a mirror with identical offsets whose groups are not followed."""
OF_DOCTOR = [each for each in REPORTED if each.use not in _OF_OTHERS]
OF_A_RUN = [each for each in REPORTED if each.use in {Use.RUN, Use.RUN_IDENTICAL}]
OF_STEPS = [each for each in OF_A_RUN if each.step != "hold"]


def title(row: Requirement) -> str:
    return f"{row.use.name}-{row.where}-{'-'.join(row.operations)}-{row.resource}".replace(" ", "_")


def cluster_of(world: FailoverWorld, row: Requirement) -> GuardedCluster:
    return world.east if row.where is ClusterRole.SOURCE else world.west


def without(world: FailoverWorld, row: Requirement) -> str:
    """Take it away; its name, as people read it."""
    name = "orders"
    needed = row.of(name)
    cluster_of(world, row).denied = {(right.operation, right.resource) for right in needed.rights}
    return needed.title


@pytest.mark.parametrize("row", OF_DOCTOR, ids=title)
def test_doctor_names_what_the_mirror_lacks(row: Requirement) -> None:
    world = FailoverWorld()
    needed = without(world, row)
    both = {"east": world.east, "west": world.west}
    checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), world.command())
    failed = [each.reason.casefold() for each in checks if each.verdict is Verdict.FAIL]
    named = [reason for reason in failed if needed.casefold() in reason]
    assert named, [(each.name, each.reason) for each in checks if each.verdict is not Verdict.PASS]


def test_doctor_says_before_the_night_that_no_approval_would_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with the brokers' defaults passed, and `approve` refused it. Asked also where all has failed over."""
    world = FailoverWorld()
    world.run(world.approve().plan)

    def forgetful(*_: object) -> NoReturn:
        raise UnsafeApproverTopic("topic __mirror_approvals: retention.ms=None")

    monkeypatch.setattr(MemoryApprovals, "all", forgetful)
    checks = doctor.clusters(("west",), lambda _: world.west.side(), world.command())
    [found] = [each for each in checks if each.name == "approvals on west"]
    assert found.verdict is Verdict.FAIL
    assert "--add-config cleanup.policy=delete,retention.ms=-1" in found.reason


@pytest.mark.parametrize("authorizer", [True, False])
def test_doctor_says_before_the_night_that_nobody_can_approve(*, authorizer: bool) -> None:
    """`next` offered an approval, which ended with NO_APPROVER_TOPIC."""
    world = FailoverWorld(authorizer=authorizer)

    def reported() -> tuple[Verdict, str]:
        both = {"east": world.east, "west": world.west}
        checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), world.command())
        [found] = [each for each in checks if each.name.startswith("approvals on ")]
        return found.verdict, found.reason

    assert reported() == (Verdict.PASS, "")
    del world.west.topics[APPROVALS_TOPIC]
    verdict, reason = reported()
    assert verdict is (Verdict.FAIL if authorizer else Verdict.PASS)
    assert ("kafka-topics.sh --bootstrap-server west:9092 --create --topic __mirror_approvals" in reason) is authorizer


@pytest.mark.parametrize("row", OF_A_RUN, ids=title)
def test_no_producer_is_blocked_by_a_run_that_could_not_end(row: Requirement) -> None:
    """Before anything is recorded or fenced, at both clusters; the approval is not used."""
    world = FailoverWorld()
    plan = world.approve().plan
    needed = without(world, row)
    with pytest.raises(AuthorizationFailed) as refused:
        world.run(plan)
    assert APPROVALS_TOPIC in refused.value.reason if row.step == "hold" else needed in refused.value.reason
    assert row.operations[0] in refused.value.reason
    assert world.source_is_as_it_was()
    assert not world.west.view("__mirror_state").failovers(DR)
    cluster_of(world, row).denied = set()
    assert world.run(plan).record.status is RunStatus.DONE


@pytest.mark.parametrize("row", OF_STEPS, ids=title)
def test_a_step_that_is_refused_ends_the_run_at_once_and_names_the_permission(row: Requirement) -> None:
    """It was tried again every 200 ms until the deadline of the run, ten minutes later."""
    world, heard = FailoverWorld(), list[tuple[str, str, str]]()
    plan, before = world.approve().plan, f"before:{row.step}"
    when = "seal:no-return" if row.step == "seal" else before

    def take_away(point: str) -> None:
        if point == when:
            without(world, row)

    tools = replace(world.tools(take_away), report=lambda *event: heard.append(event))
    with pytest.raises(StepRefused) as refused:
        run(plan, world.clusters("operator"), tools, world.command(600))
    assert row.of("orders").title.casefold() in refused.value.reason.casefold()
    assert refused.value.exit_code == 4
    assert [what for step, what, _ in heard if step == row.step] == ["begins", "stopped"]
    cluster_of(world, row).denied = set()
    assert world.run(plan).record.status is RunStatus.DONE


def test_every_step_of_the_table_is_one_of_the_route() -> None:
    assert {each.step for each in TABLE if each.step} <= set(STEP_IDS)
    at = f"on Cluster {CLUSTER} at the destination"
    assert step_needs("open", mapped=False) == f"DESCRIBE {at}, ALTER {at}"
    assert not step_needs("drain", mapped=False)
    assert "WRITE on TransactionalId tanist-* at the destination" in step_needs("seal", mapped=True)
    assert "Cluster" not in step_needs("seal", mapped=True)


def test_an_unplanned_failover_needs_nothing_of_a_source_that_may_be_lost() -> None:
    """The source fence stays pending, with the permission that is missing."""
    world = FailoverWorld()
    world.copying = False
    world.east.denied = {("ALTER", CLUSTER)}
    assert world.run(world.approve(Mode.UNPLANNED).plan).record.status is RunStatus.DONE
    fences = world.west.view("__mirror_state").source_fences(DR)
    assert {each.status for each in fences} == {FenceStatus.PENDING}
    assert all("lacks ALTER on Cluster kafka-cluster" in each.reason for each in fences)


def test_abort_reports_no_fence_that_was_never_in_force() -> None:
    """The login may not set it, so it may not lift it either; `abort` warned of a fence that nobody had set."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="hold")
    _refused(world, plan)
    aborted = abort.abort(world.clusters(), world.tools(), world.command())
    assert aborted.pending == ()
    assert {each.status for each in world.west.view("__mirror_state").source_fences(DR)} == {FenceStatus.LIFTED}
    assert world.source_is_as_it_was()


def _refused(world: FailoverWorld, plan: str) -> None:
    def take_away(point: str) -> None:
        if point == "before:fence":
            world.east.denied = {("ALTER", CLUSTER)}

    with pytest.raises(StepRefused):
        world.run(plan, take_away)


@pytest.mark.parametrize("lacking", ["WRITE", "DESCRIBE_CONFIGS"])
def test_who_may_not_approve_hears_which_permission_is_missing(lacking: str) -> None:
    world = FailoverWorld()
    world.west.denied = {(lacking, APPROVALS_TOPIC)}
    with pytest.raises(AuthorizationFailed, match=f"{lacking} on topic {APPROVALS_TOPIC}"):
        world.approve()
    assert not world.west.approvals


def test_an_approval_that_cannot_be_read_back_is_written_and_a_run_may_use_it() -> None:
    """`approve` ended with 1, as if nothing had been approved."""
    world = FailoverWorld()
    world.west.denied = {("READ", APPROVALS_TOPIC)}
    approval = world.approve()
    assert f"READ on topic {APPROVALS_TOPIC}" in approval.unread
    world.west.denied = set()
    assert world.run(approval.plan).record.status is RunStatus.DONE
