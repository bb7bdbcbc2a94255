"""A source that is slow is waited for, and not called dead, where nothing goes on without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Mode
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.failover.facts import SourceState
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failback.survey import see_returned
from tanist.usecases.failover import planning
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.source_seen import Coordinated, see_source
from tanist.usecases.snapshot import SourceSnapshot
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from tanist.ports.cluster import Cluster
    from tests.fakes.clock import JumpingClock

SLOW_SECONDS = 1.5


class Slow:
    """A port, each answer of which takes a while; later than the deadline there is none."""

    def __init__(self, port: Any, clock: JumpingClock) -> None:
        self._port, self._clock = port, clock

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left = next(each for each in (*arguments, *named.values()) if hasattr(each, "left"))
            if left.left(self._clock.monotonic()) < SLOW_SECONDS:
                raise TimedOut(f"{name}: the source did not answer in time")
            self._clock.jump(SLOW_SECONDS)
            return getattr(self._port, name)(*arguments, **named)

        return call


def slow_cluster(world: FailoverWorld) -> Cluster:
    found: Cluster | TanistError = world.clusters().source
    assert not isinstance(found, TanistError)
    slow: Any = {name: Slow(getattr(found, name), world.clock) for name in ("logs", "replicas", "fencing")}
    return replace(found, **slow)


def slow_source(world: FailoverWorld) -> SourceSnapshot:
    return SourceSnapshot(cluster=slow_cluster(world))


def test_a_slow_source_is_waited_for_on_the_way_back() -> None:
    """It had four seconds for all that a failover asks of a source that may be dead."""
    world = FailoverWorld()
    view = world.west.side().state(STATE_TOPIC, world.soon())
    topics = view.mirrored(DR)
    with pytest.raises(TimedOut):
        see_source(world.spec, slow_source(world), topics, view, Coordinated(), world.command(), whole=False)
    seen = see_returned(world.spec, slow_source(world), topics, view, world.command())
    assert seen.facts.state is SourceState.ALIVE
    assert set(seen.true_ends) == {world.spec.names.at_source(at) for topic in topics for at in topic.all_partitions()}
    assert seen.named.complete


def test_a_source_is_not_waited_for_longer_than_the_command() -> None:
    world = FailoverWorld()
    view = world.west.side().state(STATE_TOPIC, world.soon())
    with pytest.raises(TimedOut):
        see_returned(world.spec, slow_source(world), view.mirrored(DR), view, world.command(seconds=2))


@pytest.mark.parametrize(("mode", "state"), [(Mode.PLANNED, SourceState.ALIVE), (Mode.UNPLANNED, SourceState.SILENT)])
def test_a_slow_source_is_waited_for_by_a_planned_failover_and_its_run(mode: Mode, state: SourceState) -> None:
    """It had four seconds, as one that an unplanned failover does without, and was SOURCE_DOWN."""
    world = FailoverWorld()
    clusters = replace(world.clusters(), source=slow_cluster(world))
    made = planning.plan(FailoverRequest(mode=mode, loss_tolerance=0), clusters, world.command()).plan
    observer = Observer(clusters=clusters, context=world.command())
    assert observer.look_for(made.intent, made.hash).source.state is state
    assert "SOURCE_DOWN" not in {each.name for each in made.limitations}
