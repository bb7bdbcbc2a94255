"""One clear error each, and nothing changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import ApprovalUsed, NoApproverTopic, NotApproved, NotPermitted
from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import (
    AuthorizationFailed,
    Misconfigured,
    PastReturn,
    Refused,
    RunUnderWay,
    TopicNotInMirror,
)
from tanist.domain.failover.evidence import as_json
from tanist.domain.failover.health import runs_check
from tanist.domain.failover.limitations import failed
from tanist.domain.fences import FenceStatus
from tanist.domain.names import MirrorPartition
from tanist.domain.records import RunStatus
from tanist.domain.selection import Selection
from tanist.domain.states import MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import abort, planning, removal, unfinished_runs
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.approval_gate import ApprovalVoid, NotToldNow
from tanist.usecases.failover.fences import StillNeeded, lift
from tanist.usecases.failover.planning import FailoverRequest, PlanBlocked, PlanNotKept, SourceAnswers
from tanist.usecases.failover.route import STEP_IDS
from tanist.usecases.failover.run import RunAborted
from tests.builders import DR
from tests.fakes.clock import JumpingClock
from tests.fakes.failover import MemoryFencing
from tests.fakes.sink import MemorySink
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, killer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.domain.records import FailoverRun


@pytest.fixture
def unchanged(world: FailoverWorld) -> Iterator[FailoverWorld]:
    """Whatever is tried with it: neither cluster nor the state topic knows of it afterwards."""
    before = len(world.west.states["__mirror_state"])
    yield world
    assert len(world.west.states["__mirror_state"]) == before
    assert world.source_is_as_it_was()
    assert not world.west.deny
    assert not any(at in PARTITIONS and world.west.epochs.get((at, 8)) for at in PARTITIONS)


def runs(world: FailoverWorld) -> tuple[FailoverRun, ...]:
    return world.view().failovers(DR)


def approving(world: FailoverWorld, plan: str, *, approver: bool = True, mode: Mode = Mode.PLANNED) -> None:
    clusters = world.clusters("nobody", approver=approver)
    planning.approve(plan, FailoverRequest(mode=mode), clusters, world.command(), terms=ApprovalTerms.of("because", 60))


def test_nobody_has_approved(unchanged: FailoverWorld) -> None:
    with pytest.raises(NotApproved, match="is not approved"):
        unchanged.run(unchanged.plan().plan.hash)


def test_an_approval_of_another_hash(unchanged: FailoverWorld) -> None:
    unchanged.approve(Mode.PLANNED, "orders")
    with pytest.raises(NotApproved):
        unchanged.run(unchanged.plan().plan.hash)


def test_a_hash_that_the_facts_do_not_make_cannot_be_approved(unchanged: FailoverWorld) -> None:
    with pytest.raises(PlanNotKept):
        approving(unchanged, "0123456789abcdef")


def test_an_approval_whose_words_were_changed_approves_nothing(unchanged: FailoverWorld) -> None:
    approval = unchanged.approve()
    words = approval.plan_json.replace("planned", "unplanned")
    unchanged.west.approvals[:] = [replace(approval, plan_json=words)]
    with pytest.raises(NotApproved):
        unchanged.run(approval.plan)


def test_a_dead_source_never_looks_like_no_loss(unchanged: FailoverWorld) -> None:
    """What it took after it was last seen nobody has counted: it is estimated, and the approver accepts it by name."""
    unchanged.east.dead = True
    unchanged.clock.jump(10)
    planned = unchanged.plan(Mode.UNPLANNED)
    unseen = {each.name: each for each in planned.plan.limitations}["RECORDS_UNSEEN"]
    assert (planned.forecast.offsets_at_risk, planned.forecast.estimate) == (0, 10 * 4 * len(PARTITIONS))
    assert (
        "what the source accepted after its last answer is not counted; last seen: orders-0 10 s ago (" in unseen.detail
    )


@pytest.mark.parametrize("error", ["FOREIGN_WRITE", "DIVERGED", None])
def test_a_log_that_is_no_copy_any_more_is_never_promoted_in_passing(world: FailoverWorld, error: str | None) -> None:
    """Its offsets mean nothing: the others can take over without it, and by itself it can be removed and made anew."""
    world.observe(MirrorState.FAILED, MirrorPartition("orders", 1), error=error)
    planned = world.plan()
    (blocked,) = [each for each in planned.plan.limitations if each.blocks]
    assert blocked.name == "PARTITION_NO_COPY"
    assert f"orders-1 ({error or 'no reason'}" in blocked.detail
    assert "`tanist failover plan dr --destination west --mode planned --exclude orders`" in blocked.detail
    others = FailoverRequest(exclude=("orders",))
    assert not planning.plan(others, world.clusters(), world.command()).blocked
    with pytest.raises(PlanBlocked, match="PARTITION_NO_COPY"):
        approving(world, planned.plan.hash)
    assert not world.west.approvals
    assert not world.plan(Mode.PLANNED, "payments").blocked
    alone = world.plan(Mode.PLANNED, "orders")
    assert not alone.blocked
    assert "PARTITION_NO_COPY" in {each.name for each in alone.plan.limitations}


def test_a_failed_partition_is_accepted_by_name_with_its_error(world: FailoverWorld) -> None:
    at = MirrorPartition("orders", 1)
    world.observe(MirrorState.FAILED, at, error="CORRUPT_BATCH")
    planned = world.plan()
    assert [(each.partition, each.error) for each in failed(planned.plan.intent, planned.facts)] == [
        (at, "CORRUPT_BATCH")
    ]
    accepted = {each.name: each for each in planned.plan.limitations}
    assert "orders-1 (CORRUPT_BATCH)" in accepted["PARTITION_FAILED"].detail
    assert not accepted["PARTITION_FAILED"].blocks
    plan = world.approve().plan
    world.observe(MirrorState.FAILED, at, error="FOREIGN_WRITE")
    with pytest.raises(NotPermitted, match="PARTITION_NO_COPY"):
        world.run(plan)
    world.observe(MirrorState.FAILED, at, error="CORRUPT_BATCH")
    head = json.loads(world.run(plan).evidence.head)
    assert head["partitions"]["orders-1"]["error"] == "CORRUPT_BATCH"


def test_an_approval_that_has_expired(unchanged: FailoverWorld) -> None:
    approval = unchanged.approve(valid=60)
    unchanged.clock.jump(61)
    with pytest.raises(NotPermitted, match="APPROVAL_EXPIRED"):
        unchanged.run(approval.plan)


def test_a_clock_behind_the_brokers_does_not_stretch_an_approval(unchanged: FailoverWorld) -> None:
    approval = unchanged.approve()
    unchanged.clock.jump(-60)
    with pytest.raises(NotPermitted, match="CLOCK_BEHIND"):
        unchanged.run(approval.plan)


@pytest.mark.parametrize("until", [None, "hold"])
def test_an_approval_that_expired_by_the_brokers_clock_runs_nothing_where_ours_is_behind(
    world: FailoverWorld, until: str | None
) -> None:
    """The mirror's lock tells what time it is there: nothing more begins, nor is anything gone on with."""
    plan = world.approve(valid=60).plan
    if until:
        world.run(plan, until=until)
    world.west.clock = JumpingClock(epoch_ms=world.clock.now() + 61_000)
    with pytest.raises(ApprovalVoid if until else NotPermitted, match=r"APPROVAL_EXPIRED.*CLOCK_BEHIND"):
        world.run(plan)
    assert world.source_is_as_it_was()
    if until:
        assert abort.abort(world.clusters(), world.tools(), world.command()).record.status is RunStatus.ABORTED
    else:
        assert not runs(world)


def test_an_approval_is_for_one_run(world: FailoverWorld) -> None:
    approval = world.approve()
    with pytest.raises(Killed):
        world.run(approval.plan, killer(PLANNED.index("after:fence")))
    abort.abort(world.clusters(), world.tools(), world.command())
    with pytest.raises(ApprovalUsed):
        world.run(approval.plan)
    world.tick()
    again = world.approve()
    assert again.plan == approval.plan
    assert world.run(again.plan).record.status is RunStatus.DONE


def test_somebody_without_the_right_cannot_approve(unchanged: FailoverWorld) -> None:
    with pytest.raises(AuthorizationFailed):
        approving(unchanged, unchanged.plan().plan.hash, approver=False)
    assert not unchanged.west.approvals


def test_an_approval_needs_a_reason(unchanged: FailoverWorld) -> None:
    with pytest.raises(Misconfigured, match="reason"):
        planning.approve(
            "x", FailoverRequest(), unchanged.clusters(), unchanged.command(), terms=ApprovalTerms.of(" ", 60)
        )


def test_an_approval_for_somebody_else_names_both() -> None:
    """Nobody's name can look like that of a login."""
    assert FailoverWorld().approve(on_behalf_of="alice via Airflow").approver == "alice via Airflow (User:approver)"
    assert FailoverWorld().approve().approver == "approver"
    alone = FailoverWorld(authorizer=False).approve(on_behalf_of="alice via Airflow").approver
    assert alone == "alice via Airflow (UNPROTECTED:approver)"


@pytest.mark.parametrize("name", ["alice (User:root)", "alice\nUser:root", "  "])
def test_nobody_approves_under_a_name_that_could_be_mistaken(unchanged: FailoverWorld, name: str) -> None:
    with pytest.raises(Misconfigured, match="cannot be recorded as an approver"):
        unchanged.approve(on_behalf_of=name)
    assert not unchanged.west.approvals


def test_without_an_approver_topic_nobody_approves_and_nothing_runs(unchanged: FailoverWorld) -> None:
    plan = unchanged.approve().plan
    del unchanged.west.topics["__mirror_approvals"]
    with pytest.raises(NoApproverTopic, match=r"`kafka-topics\.sh --bootstrap-server west:9092 --create"):
        approving(unchanged, plan)
    with pytest.raises(NoApproverTopic):
        unchanged.run(plan)


def test_without_an_authorizer_approving_makes_the_topic_and_says_unprotected() -> None:
    world = FailoverWorld(authorizer=False)
    del world.west.topics["__mirror_approvals"]
    assert "UNPROTECTED" in {reason.name for reason in world.plan().plan.limitations}
    assert world.approve().approver.startswith("UNPROTECTED:")


def test_a_topic_that_is_not_in_the_mirror(unchanged: FailoverWorld) -> None:
    with pytest.raises(TopicNotInMirror, match="orders"):
        unchanged.plan(Mode.PLANNED, "invoices")
    with pytest.raises(Misconfigured):
        unchanged.plan(Mode.PLANNED, "(")


def test_an_unplanned_failover_from_a_living_source_is_accepted_by_name(world: FailoverWorld) -> None:
    """Corruption, an intruder, clients that are cut off while we are not: an approver gives the reason."""
    planned = world.plan(Mode.UNPLANNED)
    assert [each.name for each in planned.plan.limitations] == ["RECORDS_UNSEEN", "SOURCE_NOT_DRAINED"]
    assert (planned.blocked, planned.word) == (False, Readiness.GO)
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(SourceAnswers, match=r"--mode planned.*--although-it-answers"):
        world.run(plan, although_it_answers=False)
    assert not world.view().failovers(DR)
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_source_that_comes_back_is_named_once_and_voids_no_approval(world: FailoverWorld) -> None:
    """Nine seconds down, eight up: nobody could approve for 95 s."""
    world.east.dead = True
    approval = world.approve(Mode.UNPLANNED)
    world.east.dead = False
    with pytest.raises(SourceAnswers):
        world.run(approval.plan, although_it_answers=False)
    world.east.dead = True
    assert world.run(approval.plan, although_it_answers=False, until="fence").left
    world.east.dead = False
    assert world.run(approval.plan, although_it_answers=False).record.status is RunStatus.DONE, "it had begun"


def test_a_dead_source_in_a_planned_failover(unchanged: FailoverWorld) -> None:
    unchanged.east.dead = True
    with pytest.raises(PlanBlocked, match="SOURCE_DOWN"):
        approving(unchanged, unchanged.plan().plan.hash)


@pytest.mark.parametrize(("replicas", "why"), [(0, "DESTINATION_OFFLINE"), (1, "DESTINATION_BELOW_MIN_ISR")])
def test_a_destination_that_nobody_could_write_to(unchanged: FailoverWorld, replicas: int, why: str) -> None:
    approval = unchanged.approve()
    unchanged.clock.meanwhile = lambda: None
    unchanged.west.min_isr = 2
    unchanged.west.isr = {at: replicas if at == PARTITIONS[0] else 2 for at in PARTITIONS}
    with pytest.raises(PlanBlocked, match=why):
        approving(unchanged, unchanged.plan().plan.hash)
    with pytest.raises(NotToldNow, match=f"{why}.*{PARTITIONS[0]}"):
        unchanged.run(approval.plan, seconds=5)


def test_a_leader_that_is_away_for_a_moment_is_waited_for(world: FailoverWorld) -> None:
    """The restart of a broker at the destination voided an approval."""
    plan = world.approve().plan
    world.west.isr = {PARTITIONS[0]: 0}

    def back() -> None:
        world.tick()
        world.west.isr = {}

    world.clock.meanwhile = back
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_loss_beyond_what_is_tolerated(world: FailoverWorld) -> None:
    world.copying = False
    world.behind(7)
    world.east.dead = True
    asked = FailoverRequest(mode=Mode.UNPLANNED, loss_tolerance=20)
    found = planning.plan(asked, world.clusters(), world.command())
    assert {r.name for r in found.plan.limitations if r.blocks} == {"BEYOND_TOLERANCE"}
    assert found.forecast.offsets_at_risk == 21


def test_two_runs_at_once(world: FailoverWorld) -> None:
    """The second is refused while the first lives, and changes nothing of it."""
    world.behind()
    plan, second = world.approve().plan, list[BaseException]()

    def meddle(point: str) -> None:
        if point == "fence:applied":
            world.clock.meanwhile = beat
            with pytest.raises(RunUnderWay) as refused:
                world.run(plan)
            second.append(refused.value)
            world.clock.meanwhile = world.tick

    def beat() -> None:
        held = world.view().lock(DR)
        assert held is not None
        world.worker.append([replace(held, at=world.clock.now())], world.soon())

    assert world.run(plan, meddle).record.status is RunStatus.DONE
    assert "eve@host" in str(second[0])


def test_another_plan_of_the_same_mirror_waits(world: FailoverWorld) -> None:
    first = world.approve(Mode.PLANNED, "orders")
    second = world.approve(Mode.PLANNED, "payments")
    with pytest.raises(Killed):
        world.run(first.plan, killer(PLANNED.index("after:hold")))
    with pytest.raises(RunUnderWay, match=first.plan):
        world.run(second.plan)


def test_a_run_that_somebody_took_over_stops_at_once(world: FailoverWorld) -> None:
    world.behind()
    plan = world.approve().plan

    def aborted(point: str) -> None:
        if point == "fence:applied":
            abort.abort(world.clusters(), world.tools(), world.command())

    with pytest.raises(RunAborted, match="was undone in the meantime: aborted by eve@host") as reported:
        world.run(plan, aborted)
    assert "run the same command again" not in str(reported.value), "it would say that its approval was used"
    assert world.source_is_as_it_was()


# ── abort ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("authorizer", [True, False])
@pytest.mark.parametrize("cut", range(PLANNED.index("seal:no-return")))
def test_abort_restores_exactly_what_was_there(authorizer: bool, cut: int) -> None:
    world = FailoverWorld(authorizer=authorizer)
    world.behind()
    if authorizer:
        world.east.deny = {("orders", "User:*"), ("payments", "User:old")}
    else:
        world.east.topics["orders"].configs["max.message.bytes"] = "5000"  # type: ignore[index]
    before = (set(world.east.deny), {t: dict(world.east.topics[t].configs) for t in TOPICS})
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    if runs(world):
        assert abort.abort(world.clusters(), world.tools(), world.command()).pending == ()
    assert before == (set(world.east.deny), {t: dict(world.east.topics[t].configs) for t in TOPICS})
    assert all(world.zombie(at) for at in PARTITIONS), "the mirror goes on"


def test_a_run_that_was_killed_and_aborted_reads_as_aborted_with_everything_that_happened(world: FailoverWorld) -> None:
    """In the status, in the evidence, and in the refusal of whoever runs it again."""
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("before:groups")))
    (before,) = statuses.runs(world.clusters(), world.command())
    assert (before.record.status, before.record.runner) == (RunStatus.RUNNING, "eve@host")
    abort.abort(world.clusters(), world.tools(runner="bob@host"), world.command(), "east is back")
    (seen,) = statuses.runs(world.clusters(), world.command())
    said = "aborted by bob@host: east is back; before that: eve@host was running it in step groups"
    assert (seen.record.status, seen.record.reason, seen.facts) == (RunStatus.ABORTED, said, None)
    assert seen.left == STEP_IDS, "everything was undone"
    assert world.sink.kept is not None
    assert json.loads(world.sink.kept.events[-1].detail)["reason"] == said
    with pytest.raises(ApprovalUsed, match=r"ABORTED \(aborted by bob@host: east is back"):
        world.run(plan)


def test_why_a_run_stopped_is_told_until_somebody_goes_on_with_it(world: FailoverWorld) -> None:
    """Also after an abort: what stopped it is the reason that others look for."""
    world.behind(200)
    plan = world.approve().plan

    def losing(at: str) -> Callable[[str], None]:
        def checkpoint(point: str) -> None:
            world.east.dead = world.east.dead or point == at

        return checkpoint

    with pytest.raises(ApprovalVoid):
        world.run(plan, losing("after:fence"))
    (stopped,) = runs(world)
    assert "SOURCE_DOWN" in stopped.reason
    assert stopped.reason in runs_check([stopped]).reason
    world.east.dead = False
    world.run(plan, until="drain")
    assert runs(world)[0].reason == "", "somebody went on with it"
    with pytest.raises(ApprovalVoid):
        world.run(plan, losing("after:groups"))
    world.east.dead = False
    aborted = abort.abort(world.clusters(), world.tools(), world.command()).record
    assert aborted.reason == f"aborted by eve@host; before that: {stopped.reason}"


def test_an_approval_that_was_used_is_not_free_again_once_a_later_one_was(world: FailoverWorld) -> None:
    first = world.approve()
    for _ in range(2):
        with pytest.raises(Killed):
            world.run(first.plan, killer(PLANNED.index("before:groups")))
        abort.abort(world.clusters(), world.tools(), world.command())
        with pytest.raises(ApprovalUsed):
            world.run(first.plan)
        world.approve()
    assert world.run(first.plan).record.approval == "0-2"


def test_evidence_of_a_run_that_was_approved_again_begins_with_that_approval(world: FailoverWorld) -> None:
    """Not with the aborted one's; what that run did is kept whole, and counted for nobody else."""
    first = world.approve()
    with pytest.raises(Killed):
        world.run(first.plan, killer(PLANNED.index("before:groups")))
    abort.abort(world.clusters(), world.tools(), world.command())
    assert world.sink.kept is not None
    aborted = json.loads(as_json(world.sink.kept))
    world.clock.wait(1)
    world.east.grow(PARTITIONS[0], 5)
    world.tick()
    second = world.approve()
    assert second.plan == first.plan
    with pytest.raises(Killed):
        world.run(second.plan, killer(PLANNED.index("before:groups")))
    evidence = world.run(second.plan).evidence
    head = json.loads(evidence.head)
    assert head["approval"]["id"] == second.id
    assert head["partitions"][str(PARTITIONS[0])]["source_end"] == 15
    assert head["earlier"] == aborted
    assert [event.what for event in evidence.events if event.step == "hold"] == ["begins", "done"]


def test_an_abort_elsewhere_keeps_the_evidence_of_an_earlier_approval_apart(world: FailoverWorld) -> None:
    """The book that lies there may be of a run on another approval, where the run itself was on another host."""
    first = world.approve()
    with pytest.raises(Killed):
        world.run(first.plan, killer(PLANNED.index("before:groups")))
    abort.abort(world.clusters(), world.tools(), world.command())
    here, world.sink = world.sink, MemorySink()
    second = world.approve()
    with pytest.raises(Killed):
        world.run(first.plan, killer(PLANNED.index("before:groups")))
    there, world.sink = world.sink, here
    abort.abort(world.clusters(), world.tools(), world.command())
    assert there.kept is not None
    assert world.sink.kept is not None
    head = json.loads(world.sink.kept.head)
    assert (head["approval"]["id"], head["earlier"]["head"]["approval"]["id"]) == (second.id, first.id)
    assert [event.step for event in world.sink.kept.events] == ["abort"]


def test_abort_without_the_source_owes_what_it_cannot_lift(world: FailoverWorld) -> None:
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("fence:applied")))
    world.east.dead = True
    aborted = abort.abort(world.clusters(), world.tools(), world.command())
    assert set(aborted.pending) == set(TOPICS)
    assert {each.status for each in world.view().source_fences(DR)} == {FenceStatus.LIFT_PENDING}


def test_a_fence_that_was_lifted_is_not_owed_by_the_abort_of_another_run(world: FailoverWorld) -> None:
    """Nothing of ours stands there: also where no way leads to the source, there is nothing to be lifted."""
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("before:groups")))
    abort.abort(world.clusters(), world.tools(), world.command())
    world.approve()
    world.run(plan, until="hold")
    without_source = replace(world.clusters(), source=Misconfigured("east is not configured here"))
    assert abort.abort(without_source, world.tools(), world.command()).pending == ()
    held = world.view().source_fences(DR)
    assert {each.topic: each.status for each in held} == dict.fromkeys(TOPICS, FenceStatus.LIFTED)


def test_there_is_no_way_back_from_the_first_barrier(world: FailoverWorld) -> None:
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("seal:no-return")))
    with pytest.raises(PastReturn):
        abort.abort(world.clusters(), world.tools(), world.command())
    assert world.run(plan).record.status is RunStatus.DONE
    with pytest.raises(abort.NothingToAbort):
        abort.abort(world.clusters(), world.tools(), world.command())


def test_the_fence_of_a_promoted_topic_is_lifted_only_by_name(world: FailoverWorld) -> None:
    world.run(world.approve().plan)
    with pytest.raises(StillNeeded, match="both clusters"):
        lift(world.clusters(), world.command(), of_promoted=False)
    assert not world.source_is_as_it_was()
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert world.source_is_as_it_was()
    with pytest.raises(TopicNotInMirror):
        lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))


def test_a_late_fence_can_only_be_lifted_together_with_that_of_a_topic_that_took_over(world: FailoverWorld) -> None:
    """Status sends people to `fence lift`. It refused, and `--promoted` made both sides of the other topic writable."""
    plan = world.approve(Mode.PLANNED, "orders").plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("fence:applied")))
    abort.abort(world.clusters(), world.tools(), world.command())
    world.run(world.approve(Mode.PLANNED, "payments").plan)
    late = [each.before for each in world.view().source_fences(DR) if each.topic == "orders"]
    MemoryFencing(world.east).apply([each for each in late if each], world.soon())
    lifted = lift(world.clusters(), world.command(), of_promoted=False)
    assert [each.topic for each in lifted] == ["orders"]
    assert world.east.may_write("orders", "app")
    assert not world.east.may_write("payments", "app")


# ── removal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_removing_a_topic_is_a_failover_of_it_and_leaves_the_others(world: FailoverWorld) -> None:
    asked = FailoverRequest(include=("orders",))
    with pytest.raises(NotApproved, match="tanist failover approve dr"):
        removal.approved_plan(asked, world.clusters(), world.command())
    world.approve(Mode.PLANNED, "orders")
    outcome = world.run(removal.approved_plan(asked, world.clusters(), world.command()))
    assert outcome.record.status is RunStatus.DONE
    assert world.zombie(PARTITIONS[-1]), "payments is still being mirrored"
    assert not any(world.zombie(at) for at in PARTITIONS if at.topic == "orders")


@pytest.mark.parametrize(
    ("until", "refused"), [("fence", unfinished_runs.AnotherUnfinished), ("seal", unfinished_runs.MustBeFinished)]
)
def test_a_removal_never_adopts_an_unfinished_failover_of_other_topics(
    world: FailoverWorld, until: str, refused: type[Refused]
) -> None:
    """Asked for two topics it would have taken out one, and said that it was done."""
    begun = world.approve(Mode.PLANNED, "orders").plan
    world.run(begun, until=until)
    for include in (("orders", "payments"), (".*",), ("payments",)):
        with pytest.raises(refused, match=f"{begun}.*topics is orders") as unfinished:
            removal.approved_plan(FailoverRequest(include=include), world.clusters(), world.command())
        assert unfinished.value.plan == begun, "for the command that finishes it"
    assert removal.approved_plan(FailoverRequest(include=("orders",)), world.clusters(), world.command()) == begun


@pytest.mark.parametrize("state", [MirrorState.FAILED, MirrorState.PAUSED])
def test_a_partition_that_is_not_copied_is_named_and_not_waited_for(world: FailoverWorld, state: MirrorState) -> None:
    world.observe(state, PARTITIONS[0], error="RECORD_TOO_LARGE" if state is MirrorState.FAILED else None)
    planned = world.plan(Mode.PLANNED)
    names = {"WITHOUT_DRAIN", "PARTITION_FAILED"} if state is MirrorState.FAILED else {"WITHOUT_DRAIN"}
    assert {r.name for r in planned.plan.limitations} == names
    assert all(str(PARTITIONS[0]) in each.detail for each in planned.plan.limitations)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE


@pytest.mark.parametrize(
    ("state", "name"),
    [(MirrorState.PREPARING, "PARTITION_PREPARING"), (MirrorState.UNKNOWN, "PARTITION_UNKNOWN")],
)
def test_a_planned_failover_waits_until_copying_has_begun(world: FailoverWorld, state: MirrorState, name: str) -> None:
    """With the source alive nothing is lost by waiting; an unplanned one takes what there is, by name."""
    world.observe(state, PARTITIONS[0])
    assert [each.name for each in world.plan().plan.limitations if each.blocks] == [name]
    unplanned = world.plan(Mode.UNPLANNED)
    assert name in {each.name for each in unplanned.plan.limitations}
    assert (unplanned.blocked, unplanned.word) == (False, Readiness.ACCEPT)


def test_evidence_is_a_chain_that_shows_every_change(world: FailoverWorld) -> None:
    evidence = world.run(world.approve().plan).evidence
    assert evidence.broken_at() is None
    for n, event in enumerate(evidence.events):
        forged = replace(event, detail="{}", what="nothing")
        changed = replace(evidence, events=(*evidence.events[:n], forged, *evidence.events[n + 1 :]))
        assert changed.broken_at() is not None or n == len(evidence.events) - 1
        assert changed.tip != evidence.tip or n != len(evidence.events) - 1
