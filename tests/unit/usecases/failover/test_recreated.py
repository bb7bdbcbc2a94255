"""A topic that took over, was deleted at the destination and created again is not the one that took over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import ApprovalRequest, NotPermitted
from tanist.domain.approval.words import canonical, hash_of
from tanist.domain.checks import Verdict
from tanist.domain.errors import Unreachable
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.records import CopiedUpTo, PromotionEpoch, RunStatus
from tanist.domain.states import DesiredState
from tanist.usecases.command import Silence
from tanist.usecases.failover import status as statuses
from tanist.usecases.failover.status import checks
from tests.builders import DR, a_topic
from tests.fakes.failover import MemoryProducerFencing, MemoryReplicas
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld

if TYPE_CHECKING:
    from typing import Any

    from tanist.domain.checks import Check

OTHER = MirrorName("dr2")


def promoted() -> FailoverWorld:
    world = FailoverWorld()
    world.run(world.approve().plan)
    return world


def recreate(world: FailoverWorld) -> None:
    """Somebody deletes the topic that took over, and creates another one of the name."""
    world.west.drop("orders")
    create_again(world)


def create_again(world: FailoverWorld) -> None:
    world.west.with_topic("orders", 2)
    world.west.topics["orders"] = replace(world.west.topics["orders"], topic_id="id-of-the-next-orders")


def rules_of(world: FailoverWorld, topic: str) -> set[tuple[str, object]]:
    return {rule for rule in (*world.west.deny, *world.west.given) if rule[0] == topic}


def promote_by_another(world: FailoverWorld, topic_id: str) -> None:
    """Another mirror of the destination has mirrored and promoted what has that id."""
    spec = replace(world.spec, mirror=OTHER, mirror_id="two", data_id=ProducerId(27))
    left = a_topic(
        mirror=OTHER, mirror_id="two", desired=DesiredState.REMOVED, source_topic_id="id-of-orders", partitions=2
    )
    counted = PromotionEpoch(mirror=OTHER, mirror_id="two", topic="orders", count=1, topic_id=topic_id)
    world.worker.append([spec, left, counted], world.soon())


def found(world: FailoverWorld) -> dict[str, Check]:
    past = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    return {each.name: each for each in past}


def test_a_promotion_records_which_topic_took_over() -> None:
    world = promoted()
    recorded = world.view().promotion(DR, "orders")
    assert recorded is not None
    assert recorded.topic_id == world.west.topics["orders"].topic_id
    assert found(world)["promoted"].verdict is Verdict.PASS


def test_a_promoted_topic_that_was_created_again_is_named_and_nothing_is_written_into_it() -> None:
    """The worker wrote the mirror's markers into somebody else's topic, and status was green."""
    world = promoted()
    recreate(world)
    before = dict(world.west.ends)
    settled(world, debts(world))
    assert world.west.ends == before
    named = found(world)["promoted"]
    assert named.verdict is Verdict.FAIL
    assert "orders: the failed-over topic was deleted and re-created at the destination" in named.reason
    assert "`tanist mirrors add --topic orders`" in named.reason
    assert found(world)["barrier"].verdict is Verdict.PASS, "of the topic that is still the one"


def test_a_topic_that_is_created_again_while_the_barriers_are_renewed_gets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was deleted counted as unchanged, and its markers waited for the next topic of its name."""
    world = promoted()
    world.west.drop("orders")
    written = MemoryProducerFencing.fence_producers

    def created_just_before(self: MemoryProducerFencing, *asked: Any) -> Any:
        create_again(world)
        return written(self, *asked)

    monkeypatch.setattr(MemoryProducerFencing, "fence_producers", created_just_before)
    settled(world, debts(world))
    assert world.west.topics["orders"].topic_id == "id-of-the-next-orders", "the barriers of the others were renewed"
    assert {at.topic for at, _ in world.west.epochs} == {"payments"}


def test_a_topic_that_another_mirror_has_promoted_since_is_that_mirrors() -> None:
    world = promoted()
    recreate(world)
    promote_by_another(world, "id-of-the-next-orders")
    before = dict(world.west.ends)
    settled(world, debts(world))
    orders = {at: end for at, end in world.west.ends.items() if at.topic == "orders"}
    assert all(world.west.epochs.get((at, world.spec.data_id), -1) < 0 for at in orders)
    assert orders != {at: before[at] for at in orders}, "the other mirror's own fence is renewed"
    assert "mirror 'dr2' has promoted the new one" in found(world)["promoted"].reason


def test_one_topic_that_two_mirrors_have_promoted_is_named() -> None:
    """Both had taken it in, so both have copied into it; both stay fenced there."""
    world = promoted()
    promote_by_another(world, world.west.topics["orders"].topic_id)
    named = found(world)["promoted"]
    assert named.verdict is Verdict.FAIL
    assert "orders: mirror 'dr2' has promoted it as well" in named.reason
    assert "`tanist validate`" in named.reason
    settled(world, debts(world))
    for at in world.west.ends:
        if at.topic == "orders":
            assert world.west.epochs[at, ProducerId(27)] == world.west.epochs[at, world.spec.data_id] == 1


def test_a_destination_that_does_not_say_which_topics_it_has_gets_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    world = promoted()
    recreate(world)
    before = dict(world.west.ends)

    def silent(*_: Any) -> Any:
        raise Unreachable("west")

    monkeypatch.setattr(MemoryReplicas, "cluster", silent)
    settled(world, debts(world))
    assert world.west.ends == before
    assert found(world)["promoted"].verdict is Verdict.UNKNOWN


# ── while the run is behind its point of no return ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("until", ["seal", "generation", "configs", "canary"])
def test_a_topic_that_is_created_again_behind_the_barrier_is_named_and_gets_nothing(until: str) -> None:
    """The run promoted the new, empty topic, fenced its producers and opened it, and every check was green."""
    world = FailoverWorld(authorizer=True)
    plan, copy = world.approve().plan, world.west.topics["orders"].topic_id
    world.run(plan, until=until)
    recreate(world)
    ends, configs = dict(world.west.ends), dict(world.west.topics["orders"].configs)
    rules, canaries = rules_of(world, "orders"), world.west.canaries.count("orders")
    (seen,) = statuses.runs(world.clusters(), world.command())
    assert [(each.name, each.topic) for each in seen.broken] == [("TOPIC_RECREATED", "orders")]
    done = world.run(plan)
    assert done.record.status is RunStatus.DONE
    assert [(each.name, each.topic) for each in done.broken] == [("TOPIC_RECREATED", "orders")]
    assert "TOPIC_RECREATED: orders was deleted and re-created at the destination" in done.record.reason
    assert any(each.step == "invariants" and '"orders"' in each.detail for each in done.evidence.events)
    assert {at: end for at, end in world.west.ends.items() if at.topic == "orders"} == {
        at: end for at, end in ends.items() if at.topic == "orders"
    }
    assert world.west.topics["orders"].configs == configs
    assert rules_of(world, "orders") == rules
    assert world.west.canaries.count("orders") == canaries
    recorded = world.view().promotion(DR, "orders")
    assert recorded is not None
    assert recorded.topic_id == copy
    assert "orders: the failed-over topic was deleted and re-created" in found(world)["promoted"].reason
    assert world.west.may_write("payments", "app"), "the other topics have taken over"
    assert found(world)["barrier"].verdict is Verdict.PASS


@pytest.mark.parametrize("step", ["configs", "canary", "open"])
def test_a_topic_that_is_created_again_after_the_last_look_gets_nothing_of_the_step(step: str) -> None:
    """The step acted on the topics of the look before it."""
    world = FailoverWorld(authorizer=True)
    plan = world.approve().plan
    at_recreation: list[object] = []

    def meanwhile(point: str) -> None:
        if point == f"before:{step}":
            recreate(world)
            at_recreation.append(written(world))

    done = world.run(plan, meanwhile)
    assert done.record.status is RunStatus.DONE
    assert at_recreation == [written(world)]
    assert [(each.name, each.topic) for each in done.broken] == [("TOPIC_RECREATED", "orders")]
    assert world.west.may_write("payments", "app"), "the other topics have taken over"


def written(world: FailoverWorld) -> object:
    """All that a run could change of the topic."""
    ends = {at: end for at, end in world.west.ends.items() if at.topic == "orders"}
    west = world.west
    return ends, dict(west.topics["orders"].configs), rules_of(world, "orders"), west.canaries.count("orders")


def test_a_run_whose_topics_were_all_created_again_ends_and_says_so() -> None:
    """Killed between the point of no return and the first marker: there is nothing left to fence."""
    world = FailoverWorld(authorizer=True)
    plan = world.approve().plan

    class Killed(BaseException):
        pass

    def kill(point: str) -> None:
        if point == "seal:no-return":
            raise Killed

    with pytest.raises(Killed):
        world.run(plan, kill)
    for name, count in TOPICS.items():
        world.west.drop(name)
        world.west.with_topic(name, count)
        world.west.topics[name] = replace(world.west.topics[name], topic_id=f"id-of-the-next-{name}")
    done = world.run(plan)
    assert done.record.status is RunStatus.DONE
    assert {each.topic for each in done.broken} == set(TOPICS)
    assert world.west.canaries == []
    assert all(world.west.epochs.get((at, world.spec.data_id), -1) < 1 for at in world.west.ends)


def test_the_id_on_record_of_an_earlier_failover_says_nothing_of_this_one() -> None:
    """The topic was mirrored again, into a new one: the last look of this run replaces the record."""
    world = FailoverWorld()
    earlier = CopiedUpTo(mirror=DR, topic="orders", copied=(1, 1), topic_id="id-of-an-earlier-orders", at=EpochMs(0))
    world.worker.append([earlier], world.soon())
    plan = world.approve().plan
    done = world.run(plan)
    assert (done.record.status, done.broken) == (RunStatus.DONE, ())
    recorded = world.view().promotion(DR, "orders")
    assert recorded is not None
    assert recorded.topic_id == world.west.topics["orders"].topic_id
    assert "orders" in world.west.canaries


@pytest.mark.parametrize("until", [None, "fence"])
def test_a_run_of_an_earlier_life_of_a_topic_answered_done_and_did_nothing(until: str | None) -> None:
    """The topic took over, was deleted there and added again: the old hash named a failover that was done."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan)
    assert world.run(plan, until=until).record.status is RunStatus.DONE, "asked again nothing is done twice"
    view = world.view()
    (orders,) = (each for each in view.topics(DR) if each.topic == "orders")
    world.worker.append([replace(orders, desired=DesiredState.MIRRORING, promotion_epoch=1)], world.soon())
    with pytest.raises(NotPermitted, match="of an earlier life of orders, which the mirror copies again"):
        world.run(plan, until=until)


def test_a_plan_is_of_topics_by_their_ids() -> None:
    world = FailoverWorld()
    made = world.plan()
    words = made.plan.canonical_plan
    first = made.plan.intent.topics[0]
    assert (first.source_id, first.copy_id) == ("id-of-orders", world.west.topics["orders"].topic_id)
    assert first.copy_id
    assert ApprovedPlan.read(words).intent == made.plan.intent
    plan = world.approve().plan
    world.west.topics["orders"] = replace(world.west.topics["orders"], topic_id="another")
    with pytest.raises(NotPermitted, match="ANOTHER_TOPIC: created again, or added again, since the plan: orders"):
        world.run(plan)
    assert world.source_is_as_it_was()


def test_a_plan_of_an_earlier_version_names_no_ids_and_still_runs() -> None:
    world = FailoverWorld()
    made = world.plan().plan
    older = json.loads(made.canonical_plan)
    del older["intent"]["topic_ids"]
    words = canonical(older)
    signed = ApprovalRequest(
        mirror=DR, plan=hash_of(words), plan_json=words, request="", reason="drill", valid_for_ms=3_600_000
    )
    world.clusters().destination.approvals.append(signed, world.soon())
    assert world.run(hash_of(words)).record.status is RunStatus.DONE
