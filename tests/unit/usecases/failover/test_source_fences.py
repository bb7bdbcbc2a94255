"""A source fence that stands is on record and can be lifted, whatever was lost or late on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.errors import TimedOut
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.records import RunStatus
from tanist.domain.selection import Selection
from tanist.usecases.command import Silence
from tanist.usecases.failover import abort
from tanist.usecases.failover.fences import StillNeeded, lift
from tanist.usecases.failover.fences import fences as fence_rows
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.status import checks
from tanist.usecases.failover.steps.fence import lifted, to_be_set
from tests.builders import DR
from tests.fakes.failover import MemoryFencing
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, FailoverWorld
from tests.unit.usecases.failover.runs import assert_promoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.checks import Check
    from tanist.domain.errors import TanistError
    from tanist.domain.names import EpochMs
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline


TOPIC = min(TOPICS)


def fences(world: FailoverWorld) -> Check:
    """The check of `tanist status`."""
    found = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    return next(check for check in found if check.name == "fences")


def test_a_fence_whose_answer_was_lost_is_lifted_by_the_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request landed, its answer did not: the record said owed, the abort said undone, the source stayed fenced."""
    world = FailoverWorld()
    plan = world.approve(Mode.UNPLANNED).plan
    apply = MemoryFencing.apply

    def unanswered(
        self: MemoryFencing, before: Sequence[FenceBefore], by: Deadline
    ) -> Mapping[str, TanistError | None]:
        apply(self, before, by)
        raise TimedOut("the answer was lost")

    with monkeypatch.context() as lost:
        lost.setattr(MemoryFencing, "apply", unanswered)
        world.run(plan, until="fence")
    assert {each.status for each in world.view().source_fences(DR)} == {FenceStatus.PENDING}
    assert abort.abort(world.clusters(), world.tools(), world.command()).record.status is RunStatus.ABORTED
    assert world.source_is_as_it_was()


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_fence_that_landed_late_is_not_taken_for_what_was_there_before(authorizer: bool) -> None:
    """The next run adopted it as somebody else's, and then nobody could lift it any more."""
    world = FailoverWorld(authorizer=authorizer)
    world.run(world.approve().plan, until="fence")
    abort.abort(world.clusters(), world.tools(), world.command())
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).apply(before, world.soon())
    world.run(world.approve().plan, until="fence")
    abort.abort(world.clusters(), world.tools(), world.command())
    assert world.source_is_as_it_was()


def test_status_fails_where_somebody_lifted_the_fence_of_a_promoted_topic_by_hand() -> None:
    """It took the record for the fence: everything passed, while both sides could be written to."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    assert fences(world).verdict is Verdict.PASS
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).lift(before, world.soon())
    check = fences(world)
    assert check.verdict is Verdict.FAIL
    assert all(f"{topic}: it was failed over, but its source fence is not in force" in check.reason for topic in TOPICS)


def test_status_fails_where_a_lifted_fence_stands_before_any_worker_has_looked() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan, until="fence")
    abort.abort(world.clusters(), world.tools(), world.command())
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).apply(before, world.soon())
    assert fences(world).verdict is Verdict.FAIL
    assert "`tanist fence lift`" in fences(world).reason


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_fence_that_a_deleted_mirror_put_up_late_is_reported_and_can_be_lifted(authorizer: bool) -> None:
    """The mirror of that name was made again: producers were refused, nobody said why, and nobody could lift it."""
    world = FailoverWorld(authorizer=authorizer)
    before = MemoryFencing(world.east).snapshot([TOPIC], world.soon())
    MemoryFencing(world.east).apply([each for each in before.values() if isinstance(each, FenceBefore)], world.soon())
    assert fences(world).verdict is Verdict.FAIL
    assert "`tanist fence lift --unrecorded`" in fences(world).reason
    found = {each.name: each.detail for each in world.plan().plan.limitations}
    assert f"not on record: {TOPIC}" in found["SOURCE_FENCED"]
    (row,) = fence_rows(world.clusters(), world.command())
    assert (row.source_fence.topic, row.stands) == (TOPIC, True)
    with pytest.raises(StillNeeded, match="--unrecorded"):
        lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert not world.source_is_as_it_was()
    lift(world.clusters(), world.command(), of_promoted=False, unrecorded=True)
    assert world.source_is_as_it_was()
    assert fences(world).verdict is Verdict.PASS


def test_a_run_frozen_between_its_last_look_and_the_point_of_no_return_looks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile the fence was taken away and the source took records; its approval had long expired."""
    world = FailoverWorld()
    plan = world.approve(valid=3600).plan
    slept: list[str] = []
    write = type(world.worker).append

    def sleepy(self: object, records: Sequence[object], by: Deadline) -> StateView:
        if not slept and any(type(record).__name__ == "CopiedUpTo" for record in records):
            slept.append("three hours")
            world.clock.jump(3 * 3600)
            before = [each.before for each in world.view().source_fences(DR) if each.before]
            MemoryFencing(world.east).lift(before, world.soon())
            for at in PARTITIONS:
                world.east.grow(at, 100)
        return write(self, records, by)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.worker), "append", sleepy)
    with pytest.raises(Exception, match="APPROVAL_EXPIRED"):
        world.run(plan, seconds=8 * 3600)
    run = world.view().unfinished(DR)
    assert run is not None
    assert not run.no_return
    assert ApprovedPlan.read(run.plan_json).intent.names == tuple(sorted(TOPICS))


def test_nothing_of_this_stops_a_failover() -> None:
    world = FailoverWorld()
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_a_lift_was_asked_for_when_it_was_first_asked_for() -> None:
    """Asked for again later, it would call records proved that the source may have accepted in between."""
    world = FailoverWorld()
    world.run(world.approve().plan, until="fence")
    world.east.dead = True
    first = world.clock.now()
    entries = lifted(world.clusters().source, world.view().source_fences(DR), world.soon(), first)
    assert {each.lift_asked_at for each in entries} == {first}
    world.clock.jump(60)
    again = lifted(world.clusters().source, entries, world.soon(), world.clock.now())
    assert {(each.status, each.lift_asked_at) for each in again} == {(FenceStatus.LIFT_PENDING, first)}


def test_a_fence_that_was_taken_away_is_proved_since_it_was_set_again() -> None:
    """What the source took in between is no part of what the first proof has seen."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="fence")
    before = {each.topic: each.proved_at for each in world.view().source_fences(DR)}
    taken = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).lift(taken, world.soon())
    for at in PARTITIONS:
        world.east.grow(at)
    world.clock.wait(10)
    between = world.clock.now()
    world.run(plan, until="fence")
    after = {each.topic: each.proved_at for each in world.view().source_fences(DR)}
    assert all(since is not None and since < between for since in before.values())
    assert all(since is not None and since >= between for since in after.values())


def test_an_old_proof_is_forgotten_when_a_fence_is_set_again() -> None:
    """A lift was asked for since, and may have reached the source: what it took then, no proof has seen."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="fence")
    proved = {each.topic: each for each in world.view().source_fences(DR)}
    assert all(each.proved_at is not None for each in proved.values())
    asked = {name: replace(each, status=FenceStatus.LIFT_PENDING) for name, each in proved.items()}
    for held, status, since in ((proved, FenceStatus.PROVED, True), (asked, FenceStatus.SNAPSHOT, False)):
        for each in to_be_set(world.east.side(), TOPICS, held, plan, world.soon()).values():
            assert isinstance(each, FencedTopic)
            assert (each.status, each.proved_at is not None) == (status, since)


def test_a_source_that_answers_without_its_fence_is_not_bound_by_an_old_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence may have been taken away, and only the source can tell; one that is silent stands still."""
    world = FailoverWorld()
    intent = ApprovedPlan.read(world.approve().plan_json).intent
    world.run(world.approve().plan, until="fence")
    since = {each.topic: each.proved_at for each in world.view().source_fences(DR)}

    def ended() -> dict[str, EpochMs | None]:
        observer = Observer(clusters=world.clusters(), context=world.command())
        return {each.partition.topic: each.fenced_since for each in observer.look_for(intent, "").partitions}

    assert ended() == since

    def unreported(_: MemoryFencing, before: Sequence[FenceBefore], by: Deadline) -> dict[str, TanistError]:
        del by
        return {each.topic: TimedOut("east") for each in before}

    monkeypatch.setattr(MemoryFencing, "fence_status", unreported)
    assert ended() == dict.fromkeys(TOPICS)
    world.east.dead = True
    assert ended() == since


def test_a_topic_that_no_acl_matches_gets_a_near_fence_which_the_plan_names() -> None:
    """A DENY as its first ACL took READ from the mirror and from consumers: the drain undid itself (FENCE_LEAKS)."""
    world = FailoverWorld()
    world.without_acls("orders")
    assert world.plan().word is Readiness.GO
    (named,) = (each for each in world.plan().plan.limitations if each.name == "NEAR_FENCE")
    assert "no ACL of the source matches orders, so" in named.detail
    assert "no ACL of the source matches orders, so" in str(world.plan(Mode.UNPLANNED).plan.limitations)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert world.east.deny == {("payments", ANYBODY)}
    assert not world.east.may_write("orders", "app")
    kinds = {each.topic: each.before.kind for each in world.view().source_fences(DR) if each.before}
    assert kinds == {"orders": FenceKind.TINY_MESSAGES, "payments": FenceKind.DENY_WRITE}
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert world.source_is_as_it_was()


def test_a_deny_that_is_on_record_stays_the_fence_of_a_topic_that_no_other_acl_matches() -> None:
    """As an earlier version has set it: it is lifted exactly, and the next fence is a near one."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    world.without_acls("orders")
    assert MemoryFencing(world.east).snapshot(["orders"], world.soon())["orders"] == FenceBefore(
        topic="orders", kind=FenceKind.DENY_WRITE, had_deny=True
    )
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert world.source_is_as_it_was()
    assert MemoryFencing(world.east).snapshot(["orders"], world.soon())["orders"] == FenceBefore(
        topic="orders", kind=FenceKind.TINY_MESSAGES
    )
