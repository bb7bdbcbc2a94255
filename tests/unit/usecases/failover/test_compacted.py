"""The barrier of a compacted topic is kept from the cleaner before anybody can write there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import MessageTooLarge
from tanist.domain.checks import Verdict
from tanist.domain.records import RunStatus
from tanist.fetcher.producer_fences import KEEP_SECONDS
from tanist.usecases.command import Silence
from tanist.usecases.failover.status import checks
from tests.fakes.failover import MemoryProducerFencing
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, assert_promoted, killer

if TYPE_CHECKING:
    from tanist.domain.checks import Check


def barrier(world: FailoverWorld) -> Check:
    found = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    return next(each for each in found if each.name == "barrier")


def test_a_topic_that_will_be_compacted_gets_its_last_record_again_behind_the_barrier() -> None:
    """Its policy at the source is held off until the step `configs`."""
    world = FailoverWorld()
    assert "cleanup.policy" not in world.west.topics["orders"].configs
    outcome = world.run(world.approve().plan)
    assert world.west.repeated == set(PARTITIONS)
    assert outcome.evidence.found("seal")["by_marker_alone"] == {}
    assert barrier(world).verdict is Verdict.PASS


@pytest.mark.parametrize("point", ["seal:half", "seal:sealed", "after:seal"])
def test_killed_around_it_the_record_is_there_once(point: str) -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index(point)))
    assert world.run(plan).record.status is RunStatus.DONE
    assert_promoted(world)
    assert world.west.repeated == set(PARTITIONS)


def test_an_empty_partition_has_the_marker_alone_and_that_is_said() -> None:
    world = FailoverWorld()
    at = PARTITIONS[0]
    world.east.ends[at] = world.west.ends[at] = (0, 0, 0)
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert world.west.repeated == set(PARTITIONS) - {at}
    assert outcome.evidence.found("seal")["by_marker_alone"] == {str(at): "the partition has no record with a key"}
    assert barrier(world).verdict is Verdict.PASS


def test_a_record_that_cannot_be_repeated_stops_no_failover_behind_its_point_of_no_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = FailoverWorld()
    monkeypatch.setattr(MemoryProducerFencing, "_keep", lambda *_: MessageTooLarge("1 MB"))
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert "MESSAGE_TOO_LARGE" in outcome.evidence.found("seal")["by_marker_alone"][str(PARTITIONS[0])]
    assert barrier(world).verdict is Verdict.FAIL


def test_a_topic_that_is_made_a_compacted_one_later_fails_the_status_until_a_worker_has_seen_to_it() -> None:
    world = FailoverWorld(authorizer=False)
    world.run(world.approve().plan)
    world.west.repeated.clear()
    found = barrier(world)
    assert found.verdict is Verdict.FAIL
    assert "compaction will erase its producer fence" in found.reason
    worker = debts(world)
    settled(world, worker)
    assert barrier(world).verdict is Verdict.FAIL, "who writes there may still be writing"
    world.clock.jump(KEEP_SECONDS)
    settled(world, worker)
    assert barrier(world).verdict is Verdict.PASS
    assert not any(world.zombie(at) for at in PARTITIONS)


def test_where_others_write_all_the_time_no_record_is_repeated() -> None:
    """It could supersede a newer value of the key."""
    world = FailoverWorld(authorizer=False)
    world.run(world.approve().plan)
    world.west.repeated.clear()
    worker = debts(world)
    for _ in range(5):
        world.west.grow(PARTITIONS[0])
        world.clock.jump(KEEP_SECONDS)
        settled(world, worker)
    assert world.west.repeated == set(PARTITIONS) - {PARTITIONS[0]}
    assert str(PARTITIONS[0]) in barrier(world).reason


def test_a_topic_that_is_not_compacted_needs_no_record() -> None:
    world = FailoverWorld(held=(("retention.ms", "60000"),))
    world.run(world.approve().plan)
    assert world.west.repeated == set()
    assert barrier(world).verdict is Verdict.PASS
