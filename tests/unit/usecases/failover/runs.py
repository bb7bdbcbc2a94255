"""Failovers that are cut at any of their points, and what is true of one that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.records import STATE_TOPIC
from tanist.domain.states import MirrorState
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import DATA, PARTITIONS, TOPICS, WRITER, FailoverWorld, Killed

if TYPE_CHECKING:
    from collections.abc import Callable


TAIL = 15
"""Records of each partition that a dead source has, and nobody has copied."""


def points(mode: Mode) -> list[str]:
    """Every place where a run can be cut, in order."""
    world, seen = FailoverWorld(), list[str]()
    if mode is Mode.PLANNED:
        world.behind()
    else:
        lose_source(world)
    world.run(world.approve(mode).plan, seen.append)
    return seen


def lose_source(world: FailoverWorld) -> None:
    """It took records that nobody copies, its end was seen, and it is gone."""
    world.copying = False
    for at in PARTITIONS:
        world.east.grow(at, TAIL)
    world._heartbeat()
    world.east.dead = True


def named(seen: list[str]) -> list[str]:
    return [f"{n}-{point}" for n, point in enumerate(seen)]


PLANNED, UNPLANNED = points(Mode.PLANNED), points(Mode.UNPLANNED)


def killer(at: int) -> Callable[[str], None]:
    left = [at]

    def checkpoint(_point: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return checkpoint


def assert_promoted(world: FailoverWorld) -> None:
    view = world.view()
    assert all(view.observed(DR, at).state is MirrorState.STOPPED for at in PARTITIONS)  # type: ignore[union-attr]
    assert all(view.observed(DR, at).last_mirrored_epoch == 4 for at in PARTITIONS)  # type: ignore[union-attr]
    assert all(view.promotions(DR, topic) == 1 for topic in TOPICS)
    assert all(world.west.may_write(topic, "app") for topic in TOPICS)
    assert not any(world.west.may_write(topic, "mirror") for topic in TOPICS)
    assert world.west.given == {(topic, WRITER) for topic in TOPICS}
    assert not any(world.zombie(at) for at in PARTITIONS)
    assert all(world.west.topics[topic].configs["cleanup.policy"] == "compact" for topic in TOPICS)
    told = {each.topic: each for each in view.lineage(DR)}
    assert set(told) == set(TOPICS)
    for at in PARTITIONS:
        entry = told[at.topic]
        copied = sum(
            who == DATA and (at, offset) not in world.west.control | world.west.repeats
            for (of, offset), who in world.west.producers.items()
            if of == at
        )
        assert entry.old_ends[at.partition] == copied, "every offset below it, and none behind it, was copied"
        assert (entry.old_cluster_id, entry.new_cluster_id) == ("id-east", "id-west")
        assert entry.topic_id == f"id-of-{at.topic}"
    if not world.east.dead:
        assert world.east.view(STATE_TOPIC).lineage(DR) == view.lineage(DR)
