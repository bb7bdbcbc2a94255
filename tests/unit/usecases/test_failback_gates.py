"""The gates of replay, abort and reversal ask the same about time as that of a failover."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.entries import APPROVALS_TOPIC, ApprovalUsed, NoApproverTopic, NotApproved
from tanist.domain.failback.decision import DecisionPlan, TailAction, TailClass
from tanist.domain.failback.open_transactions import AbortPlan
from tanist.domain.failback.reversal import Reversal
from tanist.domain.names import EpochMs
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.usecases.approvals import ApprovalTerms, sign
from tanist.usecases.failback.aborting import AbortNotApproved, AbortRefused, abort_transactions
from tanist.usecases.failback.deciding import DecisionRefused, permitted
from tanist.usecases.failback.reversal import ReversalNotApproved, ReversalRequest, approval_of
from tanist.usecases.failover.abort import abort
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.returning import returned

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.approval.entries import Approval
    from tanist.domain.tails import TailDecision

REVERSAL = Reversal(mirror=DR, mirror_id="", source_cluster_id="W", destination_cluster_id="E", topics=())
ABORT = AbortPlan(mirror=DR, mirror_id="", source_cluster_id="id-east", transactions=())
DECISION = DecisionPlan(
    mirror=DR,
    mirror_id="",
    source_cluster_id="id-east",
    destination_cluster_id="id-west",
    tails=(),
    actions=dict.fromkeys(TailClass, TailAction.DROP),
    expired_at=EpochMs(0),
)


def signed(world: FailoverWorld, plan: Any) -> Approval:
    return sign(plan.canonical_plan, ApprovalTerms.of("drill", 60), returned(world), world.command())


def replays(world: FailoverWorld) -> None:
    view = returned(world).destination.state(STATE_TOPIC, world.soon())
    permitted(DECISION.hash, view, returned(world), world.command())


def aborts(world: FailoverWorld) -> None:
    abort_transactions(ABORT.hash, returned(world), world.command())


def reverses(world: FailoverWorld) -> None:
    approval_of(REVERSAL, ReversalRequest(), returned(world), world.command())


@pytest.mark.parametrize(
    ("plan", "gate", "refusal"),
    [
        (DECISION, replays, DecisionRefused),
        (ABORT, aborts, AbortRefused),
        (REVERSAL, reverses, ReversalNotApproved),
    ],
)
def test_every_gate_refuses_by_the_clock_of_the_brokers_too(
    plan: Any, gate: Callable[[FailoverWorld], None], refusal: type[Exception]
) -> None:
    """These three asked for expiry alone: a clock that is behind stretched an approval."""
    behind = FailoverWorld()
    signed(behind, plan)
    behind.clock.jump(-6)
    with pytest.raises(refusal, match="CLOCK_BEHIND: correct this host's clock"):
        gate(behind)
    expired = FailoverWorld()
    signed(expired, plan)
    expired.clock.jump(60)
    with pytest.raises(refusal, match="APPROVAL_EXPIRED"):
        gate(expired)
    late = FailoverWorld()
    signed(late, plan)
    late.west.committed[STATE_TOPIC] = EpochMs(late.clock.now() + 61_000)
    with pytest.raises(refusal, match=r"APPROVAL_EXPIRED.*CLOCK_BEHIND"):
        gate(late)


def test_the_words_of_another_kind_permit_nothing() -> None:
    world = FailoverWorld()
    for plan in (DECISION, ABORT):
        signed(world, plan)
    with pytest.raises(NotApproved, match=r"approval \S+ is not one of a decision about tails"):
        begun(world, ABORT)
    with pytest.raises(AbortNotApproved, match=r"approval \S+ does not abort transactions"):
        abort_transactions(DECISION.hash, returned(world), world.command())


def test_a_plan_of_another_mirror_permits_nothing() -> None:
    world = FailoverWorld()
    for plan in (DECISION, ABORT, REVERSAL):
        signed(world, plan)
    for gate, refusal in ((replays, DecisionRefused), (aborts, AbortRefused), (reverses, ReversalNotApproved)):
        with pytest.raises(refusal, match="the plan is for another mirror"):
            gate(world)


def test_the_command_that_approves_is_named_without_a_topic_of_approvers_too() -> None:
    world = FailoverWorld()
    del world.west.topics[APPROVALS_TOPIC]
    with pytest.raises(ReversalNotApproved, match=f"tanist mirrors reverse dr .*--approve {REVERSAL.hash} --reason"):
        reverses(world)
    with pytest.raises(AbortNotApproved, match=f"abort-transactions dr .*--approve {ABORT.hash} --reason"):
        aborts(world)
    with pytest.raises(NoApproverTopic):
        replays(world)


def test_a_replay_that_is_not_approved_names_its_own_commands() -> None:
    """It named `tanist failover plan`."""
    world = FailoverWorld()
    world.approve()
    with pytest.raises(NotApproved) as refused:
        replays(world)
    assert refused.value.name == "NOT_APPROVED"
    assert "`tanist failback decide`" in str(refused.value)
    assert "failover plan" not in str(refused.value)


def test_the_command_that_approves_a_reversal_has_the_options_that_made_it() -> None:
    """Typed as it was printed, it planned something else."""
    request = ReversalRequest(exclude=("pay{2}ments",), accept=("TAIL_UNDECIDED",), recreate=(r"orders\.v1",))
    world = FailoverWorld()
    with pytest.raises(ReversalNotApproved) as refused:
        approval_of(REVERSAL, request, returned(world), world.command())
    typed = shlex.split(str(refused.value).partition(": tanist ")[2].partition(" (")[0])
    assert typed[:4] == ["mirrors", "reverse", "dr", "--destination"]
    options = ["--exclude", "pay{2}ments", "--accept", "TAIL_UNDECIDED", "--recreate", r"orders\.v1"]
    assert typed[5:] == [*options, "--approve", REVERSAL.hash, "--reason", "as shown"]


def test_a_failover_that_is_not_approved_or_used_up_names_the_command_that_approves_it() -> None:
    world = FailoverWorld()
    plan = world.plan().plan.hash
    typed = f"tanist failover approve dr {plan} --destination west --reason"
    with pytest.raises(NotApproved, match=typed):
        world.run(plan)
    world.approve()
    world.run(plan, until="fence")
    abort(world.clusters("operator"), world.tools(), world.command(), "drill")
    with pytest.raises(ApprovalUsed, match=typed):
        world.run(plan)


def begun(world: FailoverWorld, plan: Any) -> TailDecision:
    view = returned(world).destination.state(STATE_TOPIC, world.soon())
    return permitted(plan.hash, view, returned(world), world.command())


def test_a_replay_judges_what_has_expired_by_the_time_in_the_plan() -> None:
    """It judged by its own clock: a record that expired after the approval was dropped."""
    world = FailoverWorld()
    decided = replace(DECISION, mirror_id=world.spec.id, expired_at=EpochMs(7))
    signed(world, decided)
    world.clock.jump(30)
    assert begun(world, decided).expired_at == 7


def test_a_plan_of_an_earlier_version_counts_from_its_approval() -> None:
    world = FailoverWorld()
    before = replace(DECISION, mirror_id=world.spec.id, expired_at=None)
    approval = signed(world, before)
    world.clock.jump(30)
    decision = begun(world, before)
    assert decision.expired_at == approval.at
    stored = replace(decision, expired_at=-1)
    assert stored.status is RunStatus.RUNNING
    world.worker.append([stored], world.soon())
    world.clock.jump(3_600)
    assert begun(world, before).expired_at == approval.at, "of one that was begun, too"
    world.west.approvals.clear()
    assert begun(world, before).expired_at == stored.started_at
