"""A destination of three brokers loses the leader of a partition in the middle of the barrier."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.composition.failover import Folder, failover_clusters, runner
from tanist.composition.world import World
from tanist.domain.anchoring import Writers
from tanist.domain.errors import Interrupted
from tanist.domain.names import TopicPartition, mirror_name
from tanist.domain.records import RunStatus
from tanist.ports.sealing import Barrier
from tanist.settings import load
from tanist.usecases.failover.clusters import Patience
from tanist.usecases.failover.run import run
from tanist.usecases.failover.work import Tools
from tanist.usecases.sides import Run
from tanist.wire.clock import SystemClock
from tanist.wire.router import Router
from tests.failover.conftest import Pair, running
from tests.fetcher.rig import until
from tests.storm.leaders import in_sync, move

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tanist.domain.errors import TanistError
    from tanist.domain.write_rules import WriteRule
    from tanist.ports.clock import Deadline
    from tanist.ports.opening import Opening
    from tanist.sandbox.processes import Guardian
    from tanist.usecases.failover.clusters import Clusters
    from tanist.usecases.failover.run import Outcome
    from tests.conftest import ClientConfig

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]
CLOCK = SystemClock()
BROKERS = 3
PARTITIONS = tuple(TopicPartition("three", n) for n in range(6))


@dataclass
class Watched:
    """The port `Opening`: before it opens anything, every partition is behind a barrier."""

    real: Opening
    sealed: Callable[[], bool]
    opened: int = 0

    def has_authorizer(self, by: Deadline) -> bool:
        return self.real.has_authorizer(by)

    def open(
        self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        assert self.sealed()
        self.opened += 1
        return self.real.open(topics, by, mirrors)

    def is_open(
        self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, bool | TanistError]:
        return self.real.is_open(topics, by, mirrors)

    def shut_out(
        self, topics: Sequence[str], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, bool | TanistError]:
        return self.real.shut_out(topics, by, mirrors)

    def principal(self) -> str | None:
        return self.real.principal()

    def canary(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        assert self.sealed()
        return self.real.canary(topics, by)

    def close(self) -> None:
        self.real.close()


@pytest.fixture
def trio(guardian: Guardian, client_config: ClientConfig, tmp_path: Path) -> Iterator[Pair]:
    with running(guardian, client_config, tmp_path, brokers=BROKERS) as pair:
        pair.east.topic("three", len(PARTITIONS))
        assert pair.east.writes("three", range(120), partitions=len(PARTITIONS))
        pair.tanist("mirrors", "create", "three", "--source", "east", "--topic", "three")
        pair.worker()
        pair.tanist("mirrors", "wait", "three", "--for", "lag=0", "--timeout", "60s")
        yield pair


@contextmanager
def at_work(pair: Pair, command: Run) -> Iterator[Clusters]:
    with World(load(None, pair.environment())) as world:
        destination = world.connect("west")
        with failover_clusters(world, destination, mirror_name("three"), command) as clusters:
            yield clusters


def barriers(clusters: Clusters) -> dict[TopicPartition, object]:
    spec = clusters.spec
    ids = dict.fromkeys(PARTITIONS, Writers(spec.data_id, spec.filler_id, spec.start_id))
    return dict(clusters.destination.sealing.proof(ids, CLOCK.deadline(30)))


def leader(pair: Pair, at: TopicPartition) -> int:
    with Router(pair.west.cluster.endpoint(), "tanist-test") as router:
        router.refresh([at.topic], CLOCK.deadline(10))
        return router.leader(at)


def first_ones(pair: Pair) -> tuple[int, ...]:
    """The first replica of each partition; empty while one of them does not lead."""
    with Router(pair.west.cluster.endpoint(), "tanist-test") as router:
        router.refresh(["three"], CLOCK.deadline(10))
        found = router.topics()["three"].partitions
        return tuple(each.replicas[0] for each in found) if all(e.leader == e.replicas[0] for e in found) else ()


class Each(Random):
    """Chooses every partition."""

    def random(self) -> float:
        return 0.0


def finished(pair: Pair, plan: str, losing: Callable[[str], None]) -> Outcome:
    """The run, continued on the same approval as often as it is interrupted."""
    by = CLOCK.deadline(90)
    while True:
        command = Run(clock=CLOCK, by=CLOCK.deadline(60))
        with at_work(pair, command) as clusters:
            watched = Watched(
                clusters.destination.opening, lambda: set(barriers(clusters).values()) == {Barrier.SEALED}
            )
            checked = replace(clusters, destination=replace(clusters.destination, opening=watched))
            tools = Tools(
                patience=Patience(proof=0.5, drain=20, budget=2),
                sink=Folder(pair.home / plan),
                runner=runner(),
                checkpoint=losing,
            )
            try:
                outcome = run(plan, checked, tools, command)
            except Interrupted:
                assert by.left(CLOCK.monotonic())
                continue
            assert watched.opened
            return outcome


def test_the_leader_dies_in_the_middle_of_the_barrier(trio: Pair) -> None:
    """The run ends on the same approval; nothing is opened unsealed, and no replica lacks a record or a barrier."""
    before = trio.east.read("three", len(PARTITIONS))
    plan, killed = trio.approved("three"), list[int]()

    def losing(point: str) -> None:
        if point == "seal:half" and not killed:
            killed.append(leader(trio, PARTITIONS[-1]))
            trio.west.cluster.kill(killed[0])

    outcome = finished(trio, plan, losing)
    assert outcome.record.status is RunStatus.DONE
    assert len(killed) == 1
    assert trio.west.read("three", len(PARTITIONS)) == before
    assert trio.west.writes("three", range(200, 206), partitions=len(PARTITIONS))
    assert not trio.west.writes("three", range(1), user="mirror")
    trio.west.cluster.start_broker(killed[0])
    until(lambda: in_sync(trio.west.cluster, ["three"]), 40)
    _led_by_each_in_turn(trio, before)


def _led_by_each_in_turn(trio: Pair, before: list[tuple[int, int, bytes | None]]) -> None:
    """Every replica has the same log and the same barrier, those of the broker that was dead too."""
    seen: list[tuple[int, ...]] = [()]
    for _ in range(BROKERS):
        move(trio.west.cluster, ["three"], Each())
        until(lambda: first_ones(trio) not in seen, 20)
        seen.append(first_ones(trio))
        assert [row for row in trio.west.read("three", len(PARTITIONS)) if int(row[2] or 0) < 200] == before
        with at_work(trio, Run(clock=CLOCK, by=CLOCK.deadline(30))) as clusters:
            until(lambda: set(barriers(clusters).values()) == {Barrier.SEALED}, 20)
