"""What an old source has is kept as soon as it returns: topic by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.failback.pending import pending
from tanist.domain.tails import HOLD
from tanist.fetcher.retention_holder import RetentionHolder
from tanist.usecases.command import CommandContext
from tanist.usecases.lock import Purpose, mirror_lock
from tests.builders import DR
from tests.fakes.topics import MemoryTopics
from tests.unit.fetcher.reconciling import burnt
from tests.unit.usecases.failover.in_memory import TOPICS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline
    from tanist.ports.state import Locked
    from tests.unit.usecases.failover.in_memory import FailoverWorld


@pytest.fixture
def world_burnt() -> FailoverWorld:
    """An unplanned failover is done, its source has returned, and there are tails."""
    world = burnt()
    world.east.dead = False
    return world


def holder(world: FailoverWorld) -> RetentionHolder:
    return RetentionHolder(
        lambda _spec: MemoryTopics(world.east),
        lambda mirror, operation, by: mirror_lock(
            world.west.side(),
            mirror,
            Purpose(operation=operation, preemptible=True),
            CommandContext(clock=world.clock, by=by, holder="worker w"),
        ),
        world.clock,
    )


def held(world: FailoverWorld) -> set[str]:
    return {name for name in TOPICS if HOLD.items() <= world.east.topics[name].configs.items()}


def test_a_topic_that_cannot_be_changed_does_not_stop_retention_of_the_others_from_being_held(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = burnt()
    world.east.dead = False
    spec, worker = world.view().mirror(DR), holder(world)
    assert spec is not None
    assert {each.topic for each in pending(world.view(), DR)} == set(TOPICS)
    first = min(TOPICS)
    world.east.denied.add(("ALTER_CONFIGS", first))
    for _ in range(3):
        worker.hold(spec, worker.wanted(spec, world.view()), world.soon())
    assert held(world) == set(TOPICS) - {first}
    assert worker.wanted(spec, world.view()) == (first,)
    warned = [each for each in caplog.records if "cannot be held" in each.message]
    assert [vars(each)["topic"] for each in warned] == [first]
    world.east.denied.clear()
    worker.hold(spec, worker.wanted(spec, world.view()), world.soon())
    assert held(world) == set(TOPICS)
    assert worker.wanted(spec, world.view()) == ()


def test_what_a_command_changes_before_the_worker_has_the_lock_is_put_back_later(world_burnt: FailoverWorld) -> None:
    """The worker stored what it had seen before the lock: the configs of a moment ago, and those were put back."""
    world, topic = world_burnt, min(TOPICS)
    spec, worker = world.view().mirror(DR), holder(world)
    assert spec is not None
    wanted = worker.wanted(spec, world.view())
    locked = worker._lock  # what happens just before it

    def changed(mirror: MirrorName, operation: str, by: Deadline) -> AbstractContextManager[Locked]:
        assert MemoryTopics(world.east).alter_configs({topic: {"retention.ms": "86400000"}}, by) == {topic: None}
        return locked(mirror, operation, by)

    worker._lock = changed
    worker.hold(spec, wanted, world.soon())
    assert dict(world.view().retention_held(DR)[topic].before)["retention.ms"] == "86400000"
