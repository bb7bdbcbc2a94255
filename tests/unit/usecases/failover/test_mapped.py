"""Failovers of a mirror with mapped offsets: killed anywhere, while its worker lives, or has died in a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Mode, Verdict
from tanist.domain.delivery import Delivery
from tanist.domain.errors import Misconfigured
from tanist.domain.failback.pending import tails_of
from tanist.domain.failback.way_back import NoWayBack
from tanist.domain.fake_group import group_of
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.states import DesiredState, MirrorState
from tanist.domain.writers import transactional_writers
from tanist.usecases.command import Silence
from tanist.usecases.failover import planning
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.status import checks
from tanist.usecases.failover.step import StepRefused
from tests.builders import DR
from tests.fakes.failover import MemoryProducerFencing
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, WRITER, FailoverWorld, Killed
from tests.unit.usecases.failover.mapped import MAPPED, MappedWorld
from tests.unit.usecases.failover.runs import TAIL, killer, lose_source, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.writer_identity import TransactionalWriter
    from tanist.ports.clock import Deadline


def points(mode: Mode) -> list[str]:
    """Every place where a run can be cut, in order."""
    world, seen = prepared(mode), list[str]()
    world.run(world.approve(mode).plan, seen.append)
    return seen


def prepared(mode: Mode, **fields: Any) -> MappedWorld:
    """Planned: the copy is behind. Unplanned: the source is gone, and the worker died in an open transaction."""
    world = MappedWorld(spec_fields=MAPPED | fields)
    if mode is Mode.PLANNED:
        world.behind()
        return world
    for at in PARTITIONS:
        world.east.grow(at, 3)
        if not world.copier.owns(at):
            world.copier.take_over(at)
        assert world.copier.append(at, 2)
    lose_source(world)
    return world


PLANNED, UNPLANNED = points(Mode.PLANNED), points(Mode.UNPLANNED)


def assert_promoted(world: MappedWorld) -> None:
    view = world.view()
    assert all(view.observed(DR, at).state is MirrorState.STOPPED for at in PARTITIONS)  # type: ignore[union-attr]
    assert all(view.promotions(DR, topic) == 1 for topic in TOPICS)
    assert all(world.west.may_write(topic, "app") for topic in TOPICS)
    assert world.west.given == {(topic, WRITER) for topic in TOPICS}
    told = {each.topic: each for each in view.lineage(DR)}
    ends = dict(world.west.ends)
    for at in PARTITIONS:
        entry, copied = told[at.topic], view.copied_up_to(DR, at.topic)
        assert copied is not None
        assert copied.copied[at.partition] == world.position(at).position
        assert entry.old_ends == entry.reserve_ends, "nothing is reserved"
        assert max(world.found[at].values()) < entry.old_ends[at.partition]
        assert not world.zombie(at)
        assert world.west.ends[at][2] == ends[at][2]
        assert_translated(world, at.topic, at.partition)
    if not world.east.dead:
        assert world.east.view(STATE_TOPIC).lineage(DR) == view.lineage(DR)


def assert_translated(world: MappedWorld, topic: str, partition: int) -> None:
    """What is published is exact for ever: each copied record, and where reading goes on behind the last one."""
    at = next(each for each in PARTITIONS if each == (topic, partition))
    policy, position = world.published(), world.position(at)
    for offset, found in world.found[at].items():
        assert policy.in_copy(at, offset) == found
    for more in (0, 1, 100):
        assert policy.in_copy(at, SourceOffset(position.position + more)) == position.end
    assert policy.copied(at, DestinationOffset(world.west.ends[at][2])) == position.position


def test_the_fence_is_told_what_was_committed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that has lost only the marker of that is committed by it, and not aborted."""
    world, told = MappedWorld(), dict[MirrorPartition, SourceOffset]()
    real = MemoryProducerFencing.fence_transactional_ids

    def fence(self: MemoryProducerFencing, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline) -> Any:
        told.update({at: each.last.position for at, each in writers.items() if each.last is not None})
        return real(self, writers, by)

    monkeypatch.setattr(MemoryProducerFencing, "fence_transactional_ids", fence)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert told == {at: world.position(at).position for at in PARTITIONS}


def test_a_planned_failover_loses_nothing_and_leaves_nobody_writing() -> None:
    world = MappedWorld(writing=True)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert_promoted(world)
    for at in PARTITIONS:
        assert len(world.found[at]) == world.east.ends[at][2], "every record of the source, once"


@pytest.mark.parametrize("cut", range(len(PLANNED)), ids=named(PLANNED))
def test_a_planned_run_that_was_killed(cut: int) -> None:
    world = prepared(Mode.PLANNED)
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


@pytest.mark.parametrize("cut", range(len(UNPLANNED)), ids=named(UNPLANNED))
def test_an_unplanned_run_that_was_killed(cut: int) -> None:
    """What the dead worker has left open is aborted first: then the ends are read."""
    world = prepared(Mode.UNPLANNED)
    positions = {at: world.position(at).position for at in PARTITIONS}
    planned = world.plan(Mode.UNPLANNED)
    assert planned.forecast.offsets_at_risk == (TAIL + 3) * len(PARTITIONS)
    assert planned.reserve.offsets == 0
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(Killed):
        world.run(plan, killer(cut))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)
    assert {at: world.position(at).position for at in PARTITIONS} == positions
    assert not world.west.owned, "nothing holds the last stable offset"


def test_a_run_that_is_repeated_fences_nothing_again() -> None:
    world = prepared(Mode.PLANNED)
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("after:seal")))
    ends = dict(world.west.ends)
    assert world.run(plan, until="generation").record.status is RunStatus.RUNNING
    assert dict(world.west.ends) == ends


def test_a_worker_that_takes_over_while_its_topics_leave_copies_nothing_more() -> None:
    """It has its lease, and gets a new epoch: what keeps it off is the state that it reads after that."""
    world = MappedWorld()
    late = list[dict[MirrorPartition, int]]()

    def woken(point: str) -> None:
        if point.startswith("seal:") and not world.copier.blocked >= set(TOPICS):
            for at in PARTITIONS:
                world.east.grow(at, 5)
            world.tick()
        if point in {"seal:sealed", "seal:published", "seal:lineage"}:
            late.append({at: len(found) for at, found in world.found.items()})

    assert world.run(world.approve(Mode.UNPLANNED).plan, woken).record.status is RunStatus.DONE
    assert late[0] == late[1] == late[2]
    assert late[0] == {at: len(found) for at, found in world.found.items()}
    assert sum(late[0].values()) > 10 * len(PARTITIONS), "in its old epoch it went on until it was fenced"
    assert world.moved == [(tuple(TOPICS), (".*",))] * 2, "groups are translated again where it did"
    assert_promoted(world)


def test_a_position_that_somebody_else_has_committed_is_not_used_and_keeps_no_unplanned_failover_from_its_end() -> None:
    """Its worker has FAILED it by then. What was copied stays, and nobody says up to where."""
    world = prepared(Mode.UNPLANNED)
    at, *others = PARTITIONS
    world.groups.commit(group_of(DR), at, 7, "of a console consumer")
    assert "RECORDS_AT_RISK_UNKNOWN" in world.limitations(Mode.UNPLANNED)
    outcome = world.run(world.approve(Mode.UNPLANNED).plan)
    assert outcome.record.status is RunStatus.DONE
    assert list(outcome.evidence.found("seal")["positions_unknown"]) == [str(at)]
    assert not world.zombie(at)
    for other in others:
        assert_translated(world, other.topic, other.partition)


def test_a_part_of_the_mirror_fails_over_and_the_rest_is_copied_on() -> None:
    world = MappedWorld(writing=True)
    assert world.run(world.approve(Mode.PLANNED, "orders").plan).record.status is RunStatus.DONE
    stays = next(at for at in PARTITIONS if at.topic == "payments")
    before = len(world.found[stays])
    for _ in range(3):
        world.clock.wait(1)
    assert len(world.found[stays]) > before
    for at in PARTITIONS:
        assert world.zombie(at) is (at == stays) or at.topic == "payments"


def test_what_identical_offsets_give_is_said_once_in_the_plan_and_nothing_is_reserved() -> None:
    world = prepared(Mode.UNPLANNED)
    planned = world.plan(Mode.UNPLANNED)
    said = {each.name: each for each in planned.plan.limitations}
    assert said["OFFSETS_MAPPED"].usual
    assert "way back" in said["OFFSETS_MAPPED"].detail
    assert "OFFSETS_MAY_BE_REUSED" not in said
    assert (planned.plan.intent.reserve, planned.reserve.partitions) == (0, ())
    assert "OFFSETS_MAPPED" not in FailoverWorld().limitations()
    with pytest.raises(Misconfigured, match="--reserve"):
        planning.plan(FailoverRequest(mode=Mode.UNPLANNED, reserve=5), world.clusters(), world.command())


def test_the_way_back_is_refused_by_name() -> None:
    world = MappedWorld()
    with pytest.raises(NoWayBack, match="mapped offsets"):
        planning.plan(FailoverRequest(reverse=True), world.clusters(), world.command())
    world = prepared(Mode.UNPLANNED)
    world.run(world.approve(Mode.UNPLANNED).plan)
    with pytest.raises(NoWayBack):
        world.clusters().returned()
    assert tails_of(world.view(), DR) == (), "nobody is told to survey them"


def test_the_status_after_a_failover_proves_the_fence_and_speaks_of_no_reserve() -> None:
    world = prepared(Mode.PLANNED)
    world.run(world.approve().plan)
    world.clock.wait(10)
    found = {each.name: each for each in checks(world.clusters().snapshot(), Silence(world.clock), world.command())}
    assert found["barrier"].verdict is Verdict.PASS, found["barrier"]
    assert found["reserves"].verdict is Verdict.PASS
    at = PARTITIONS[0]
    world.west.epochs = dict.fromkeys(world.west.epochs, -1)
    found = {each.name: each for each in checks(world.clusters().snapshot(), Silence(world.clock), world.command())}
    assert str(at) in found["barrier"].reason


@pytest.mark.parametrize(
    ("verifies", "delivery", "verdict"),
    [
        (True, Delivery.EXACTLY_ONCE, Verdict.PASS),
        (False, Delivery.EXACTLY_ONCE, Verdict.FAIL),
        (True, Delivery.AT_LEAST_ONCE, Verdict.FAIL),
    ],
    ids=["verified", "brokers before 3.6", "at least once"],
)
def test_a_fence_that_brokers_have_forgotten_stands_only_where_they_verify_transactions(
    verifies: bool, delivery: Delivery, verdict: Verdict
) -> None:
    """It was said to be in force on brokers that would accept what a frozen worker still sends."""
    world = prepared(Mode.PLANNED, delivery=delivery)
    world.run(world.approve().plan)
    world.west.epochs.clear()
    world.west.verifies = verifies
    found = {each.name: each for each in checks(world.clusters().snapshot(), Silence(world.clock), world.command())}
    assert found["barrier"].verdict is verdict
    assert ("have forgotten the fence of its transactional id" in found["barrier"].reason) is (verdict is Verdict.FAIL)


def test_a_run_without_the_right_to_its_transactional_ids_names_it() -> None:
    world = prepared(Mode.PLANNED)
    plan = world.approve().plan
    name = world.id_of(PARTITIONS[0])
    world.west.denied.add(("WRITE", name))
    with pytest.raises(StepRefused, match=f"WRITE on TransactionalId {name}"):
        world.run(plan)
    world.west.denied.clear()
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)


def test_a_mirror_that_was_added_to_again_is_not_fenced_by_an_earlier_promotion() -> None:
    world = MappedWorld()
    world.run(world.approve().plan)
    view = world.view()
    fenced = transactional_writers(view, world.spec, PARTITIONS)
    assert all(each.fence is not None for each in fenced.values())
    topic = view.topic(DR, "orders")
    assert topic is not None
    world.worker.append([replace(topic, desired=DesiredState.MIRRORING, promotion_epoch=1)], world.soon())
    again = transactional_writers(world.view(), world.spec, PARTITIONS)
    assert {at for at, each in again.items() if each.fence is None} == {at for at in PARTITIONS if at.topic == "orders"}
