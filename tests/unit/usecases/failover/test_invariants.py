"""A run in whose sight an invariant breaks: undone before the point of no return, reported behind it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.records import RunStatus
from tanist.domain.states import DesiredState
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.runner import InvariantBroken
from tests.builders import DR
from tests.fakes.failover import MemoryFencing
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld
from tests.unit.usecases.failover.runs import assert_promoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.failover.facts import Facts, ObservedTopic
    from tanist.domain.fences import FenceBefore
    from tanist.ports.clock import Deadline


def broken_events(evidence: Evidence | None) -> list[dict[str, Any]]:
    assert evidence is not None
    return [json.loads(each.detail) for each in evidence.events if each.step == "invariants"]


def seeing(monkeypatch: pytest.MonkeyPatch, change: Callable[[ObservedTopic, Facts], ObservedTopic]) -> None:
    """Every look sees the topics as `change` makes them."""
    look = Observer.look

    def changed(self: Observer, *asked: Any, **named: Any) -> Facts:
        found = look(self, *asked, **named)
        return replace(found, topics=tuple(change(each, found) for each in found.topics))

    monkeypatch.setattr(Observer, "look", changed)


def test_a_topic_that_leaves_the_mirror_uncounted_before_the_barrier_undoes_the_run() -> None:
    """Somebody writes past the lock: the promotion would be counted by nobody."""
    world = FailoverWorld()
    plan = world.approve().plan

    def removes(point: str) -> None:
        if point == "after:fence":
            (topic,) = (each for each in world.view().topics(DR) if each.topic == "orders")
            world.worker.append([replace(topic, desired=DesiredState.REMOVED)], world.soon())

    with pytest.raises(InvariantBroken, match="PROMOTION_NOT_COUNTED: orders"):
        world.run(plan, removes)
    (run,) = world.view().failovers(DR)
    assert (run.status, run.reason, run.no_return) == (RunStatus.ABORTED, "INVARIANT_BROKEN", False)
    assert world.east.may_write("payments", "app"), "its fence was lifted"
    assert not world.east.may_write("orders", "app"), "somebody has made it take over"
    (event,) = broken_events(world.sink.kept)
    assert [each["name"] for each in event["broken"]] == ["PROMOTION_NOT_COUNTED"]


def test_a_breach_that_is_gone_within_seconds_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers learn of a rule each by itself: one that was asked at once may not have it yet."""
    world = FailoverWorld()
    plan = world.approve().plan
    late: list[float] = []

    def not_yet(seen: ObservedTopic, facts: Facts) -> ObservedTopic:
        if seen.source_fence is None or seen.source_fence.status != "proved":
            return seen
        late.append(world.clock.monotonic())
        return replace(seen, fence_stands=False) if late[-1] - late[0] < 2 else seen

    seeing(monkeypatch, not_yet)
    assert world.run(plan).record.status is RunStatus.DONE
    assert broken_events(world.sink.kept) == []
    assert_promoted(world)


def test_a_source_that_takes_a_fence_and_has_none_undoes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered that all was done: the run tried for ten minutes, and left the mirror locked."""
    world = FailoverWorld()
    plan = world.approve().plan

    def accepted(_self: MemoryFencing, before: Sequence[FenceBefore], _by: Deadline) -> dict[str, None]:
        return dict.fromkeys(each.topic for each in before)

    monkeypatch.setattr(MemoryFencing, "apply", accepted)
    with pytest.raises(InvariantBroken, match="FENCE_GONE"):
        world.run(plan)
    assert world.view().unfinished(DR) is None


def test_a_fence_that_is_lifted_by_hand_between_two_steps_is_put_up_again() -> None:
    """The step mends it, so nothing is stopped; but it is reported."""
    world = FailoverWorld()
    plan, lifted = world.approve().plan, list[str]()

    def lifts(point: str) -> None:
        if point == "groups:moved" and not lifted:
            lifted.append(point)
            held = world.view().source_fences(DR)
            MemoryFencing(world.east).lift([each.before for each in held if each.before], world.soon())

    outcome = world.run(plan, lifts)
    assert outcome.record.status is RunStatus.DONE
    assert outcome.did[:6] == ("hold", "fence", "groups", "fence", "seal", "generation")
    (event,) = broken_events(outcome.evidence)
    assert {each["name"] for each in event["broken"]} == {"FENCE_GONE"}
    assert (outcome.broken, outcome.record.reason) == ((), ""), "it was mended"
    assert_promoted(world)


def test_behind_the_point_of_no_return_a_breach_is_reported_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the evidence, to whoever watches, in its record, and by `failover status` while it is unfinished."""
    world = FailoverWorld()
    plan = world.approve().plan
    seeing(monkeypatch, lambda seen, _: replace(seen, source_fence=None) if seen.removed else seen)
    world.run(plan, until="canary")
    (seen,) = statuses.runs(world.clusters(), world.command())
    assert seen.broken == ()
    outcome = world.run(plan, until="open")
    (seen,) = statuses.runs(world.clusters(), world.command())
    assert {each.topic for each in seen.broken} == {each.topic for each in outcome.broken} == set(TOPICS)
    done = world.run(plan)
    assert done.record.status is RunStatus.DONE
    assert "TWO_WRITABLE_SIDES: producers may write to orders, its source fence is nothing" in done.record.reason
    assert broken_events(done.evidence)
    assert_promoted(world)


def test_a_run_looks_at_both_clusters_once_before_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It did so before it took the lock and again behind it, in each of the DAG's ten tasks."""
    world = FailoverWorld()
    plan, looks, look = world.approve().plan, list[str](), Observer.look

    def counted(self: Observer, *asked: Any, **named: Any) -> Facts:
        looks.append("look")
        return look(self, *asked, **named)

    monkeypatch.setattr(Observer, "look", counted)
    before: list[int] = []
    world.run(plan, lambda point: before.append(len(looks)) if point == "before:hold" else None, until="hold")
    assert before == [1]
    assert len(looks) == 2, "and once after it"
    looks.clear()
    assert world.run(plan, until="hold").did == ()
    assert len(looks) == 1


def test_a_plan_of_many_topics_is_not_read_again_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was, after each step: of 200 topics the checks of the invariants read it a thousand times."""
    world = FailoverWorld(topics={f"orders-{n}": 1 for n in range(50)})
    plan, reads, read = world.approve().plan, list[str](), ApprovedPlan.read

    def counted(shown: str) -> ApprovedPlan:
        reads.append(shown)
        return read(shown)

    monkeypatch.setattr(ApprovedPlan, "read", counted)
    assert world.run(plan).record.status is RunStatus.DONE
    assert len(reads) < 50
