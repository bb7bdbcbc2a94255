"""A failover while the source has partitions that the mirror does not know of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.names import TopicPartition
from tanist.domain.records import RunStatus
from tanist.domain.states import MirrorState
from tests.fakes.topics import MemoryTopics
from tests.unit.usecases.failover.world import DR, TOPICS, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline

MORE = TopicPartition("orders", TOPICS["orders"])


@pytest.fixture
def world() -> FailoverWorld:
    return FailoverWorld()


def grow(world: FailoverWorld, records: int = 200, partitions: int = MORE.partition + 1) -> None:
    world.east.side().topics.grow("orders", partitions, world.soon())
    world.east.grow(MORE, records)


def names(world: FailoverWorld, mode: Mode = Mode.PLANNED) -> dict[str, str]:
    return {each.name: each.detail for each in world.plan(mode).plan.limitations}


def test_what_has_no_copy_is_at_risk_and_left_behind_only_by_name(world: FailoverWorld) -> None:
    """Two hundred records in a partition from before the next sync: they were lost, and it said that none are."""
    before = world.plan()
    assert "PARTITIONS_WITHOUT_COPY" not in {each.name for each in before.plan.limitations}
    grow(world)
    planned = world.plan()
    (accepted,) = [each for each in planned.plan.limitations if each.name == "PARTITIONS_WITHOUT_COPY"]
    assert not accepted.blocks
    assert "1 of orders; add them with `tanist metadata sync dr`" in accepted.detail
    assert planned.plan.hash != before.plan.hash
    assert planned.forecast.offsets_at_risk == planned.forecast.estimate == 200
    assert planned.forecast.by_partition == ((MORE, 200),)
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert json.loads(outcome.evidence.head)["forecast"]["offsets_at_risk"] == 200


def test_a_source_that_grows_after_the_approval_voids_it(world: FailoverWorld) -> None:
    """Also where somebody has accepted fewer, and where the mirror has learned of them since."""
    plan = world.approve().plan
    grow(world)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 1 of orders"):
        world.run(plan)
    plan = world.approve().plan
    grow(world, 0, MORE.partition + 3)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 2 of orders"):
        world.run(plan)


def test_a_mirror_that_takes_in_partitions_after_the_approval_voids_it(world: FailoverWorld) -> None:
    """Nobody would wait until they are drained."""
    plan = world.approve().plan
    grow(world)
    world.west.side().topics.grow("orders", MORE.partition + 1, world.soon())
    (orders,) = [each for each in world.worker.catch_up(world.soon()).topics(DR) if each.topic == "orders"]
    world.worker.append([replace(orders, partitions=MORE.partition + 1)], world.soon())
    world.observe(MirrorState.MIRRORING, MORE)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 1 of orders"):
        world.run(plan)


def test_a_silent_source_invents_nothing(world: FailoverWorld) -> None:
    """What it has more nobody can tell; that what it took is unknown is said already."""
    grow(world)
    world.east.dead = True
    assert "PARTITIONS_WITHOUT_COPY" not in names(world, Mode.UNPLANNED)
    assert "RECORDS_UNSEEN" in names(world, Mode.UNPLANNED)


def test_an_unplanned_failover_counts_them_as_lost_while_the_source_answers_in_part(world: FailoverWorld) -> None:
    grow(world)
    del world.east.ends[TopicPartition("payments", 0)]
    limitations = names(world, Mode.UNPLANNED)
    assert "PARTITIONS_WITHOUT_COPY" in limitations
    assert "200 offsets of the source are not at the destination" in limitations["RECORDS_AT_RISK"]


def test_a_source_that_does_not_say_how_many_it_has_stops_a_planned_failover(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it answers everything else."""
    known = MemoryTopics.partitions

    def but_orders(self: MemoryTopics, asked: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        return {**known(self, asked, by), "orders": TimedOut("no answer")}

    monkeypatch.setattr(MemoryTopics, "partitions", but_orders)
    assert "orders: the source does not report its number of partitions: TIMED_OUT" in names(world)["SOURCE_DOWN"]
    assert world.plan().blocked
