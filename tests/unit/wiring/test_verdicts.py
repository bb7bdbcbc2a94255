"""The verdicts of a worker's metrics: how old they become, and what they take from copying."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.fetcher import monitoring
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.wiring.fetcher import _monitored
from tanist.wiring.verdicts import EVERY_SECONDS, MOST_SECONDS, SHARE, Verdicts
from tests.builders import a_command
from tests.fakes.clock import JumpingClock
from tests.fakes.failover import GuardedCluster, MemoryReplicas
from tests.unit.fetcher.test_health import WELL
from tests.unit.usecases.readings import clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.health import WorkerFacts
    from tanist.fetcher.service import Service
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import ClusterSeen
    from tanist.usecases.mirror import OpenMirror
    from tanist.wiring.registry import ClusterRegistry

MIRRORS = tuple(MirrorName(f"m{n}") for n in range(4))


class Worker:
    """It looks after four mirrors of one source; it is the registry of their clusters, too.

    `frozen`: whether the source takes its whole time and says nothing. `work`: seconds of processor for each mirror.
    """

    def __init__(self, *, frozen: bool = False, work: float = 0.01) -> None:
        self.clock, self.frozen, self.work, self.waits = JumpingClock(), frozen, work, 0
        self.east, self.west = GuardedCluster("east"), GuardedCluster("west")
        self.east.with_topic("orders", 1, 10)
        create(CreateRequest(mirror="m0", include=("orders",)), self.east.side(), self.west.side(), a_command())
        spec = self.west.view(STATE_TOPIC).mirror(MirrorName("m0"))
        assert spec
        for mirror in MIRRORS[1:]:
            self.west.write(STATE_TOPIC, replace(spec, mirror=mirror, mirror_id=mirror))
        self.known_when_asked: list[list[MirrorName]] = []
        self.held = frozenset(MIRRORS)
        self.verdicts = Verdicts(cast("ClusterRegistry", self), "west", lambda: self.held, self.clock)

    def again(self) -> Worker:
        return self

    def close(self) -> None:
        """Nothing: it has no connections."""

    def connect(self, name: str) -> Cluster:
        assert name == "west"
        self.known_when_asked.append(sorted(self.verdicts.seen))
        self.clock.work(self.work)
        return self.west.side()

    def mirror(self, spec: MirrorSpec, _: Cluster) -> OpenMirror:
        found = clusters(spec, self.east, self.west)
        assert not isinstance(found.source, TanistError)
        return replace(found, source=replace(found.source, replicas=Freezes(self))) if self.frozen else found

    def look(self) -> float:
        """One look at all mirrors; how long the thread rests after it."""
        self.verdicts._rest = 0
        self.verdicts._round()
        return self.verdicts._rest

    def oldest(self) -> float:
        return max((self.clock.now() - (each.at or 0)) / 1000 for each in self.verdicts.seen.values())


class Freezes(MemoryReplicas):
    """Of a source that is stopped: whoever asks waits."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker.east)
        self._worker = worker

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        self._worker.waits += 1
        self._worker.clock.wait(SOURCE_SECONDS)
        raise TimedOut("east does not answer")


def test_a_frozen_source_stopped_all_verdicts_of_its_mirrors() -> None:
    """They were up to 491 s old, and the rule for old verdicts paged. S3.17."""
    worker = Worker(frozen=True)
    for _ in range(12):
        rest = worker.look()
        worker.clock.jump(rest)
        assert worker.oldest() < 120
    assert {each.words[Mode.PLANNED] for each in worker.verdicts.seen.values()} <= {Readiness.NO_GO, Readiness.UNKNOWN}


def test_a_look_that_waited_long_was_rested_from_as_if_it_had_worked() -> None:
    assert Worker(frozen=True).look() == EVERY_SECONDS


@pytest.mark.parametrize(("work", "rest"), [(0.1, EVERY_SECONDS), (1.0, SHARE * 4.0), (60.0, MOST_SECONDS)])
def test_verdicts_take_a_twentieth_of_a_core_from_copying(work: float, rest: float) -> None:
    """A rest has an end, or verdicts would be so old that they page somebody."""
    assert Worker(work=work).look() == pytest.approx(rest)


def test_each_mirror_waited_again_for_the_source_that_the_one_before_had_found_silent() -> None:
    worker = Worker(frozen=True)
    for looks in (1, 2):
        worker.look()
        assert worker.waits == looks, "each look asks once: the source may be back"


def test_the_verdict_of_a_mirror_was_held_back_until_those_of_all_others_were_known() -> None:
    worker = Worker()
    worker.look()
    assert worker.known_when_asked == [list(MIRRORS[:n]) for n in range(4)]
    worker.held = frozenset(MIRRORS[2:])
    worker.look()
    assert sorted(worker.verdicts.seen) == list(MIRRORS[2:]), "another worker looks after the others"


@pytest.mark.parametrize("frozen", [False, True])
def test_the_lags_of_a_look_are_those_of_status(*, frozen: bool) -> None:
    """Also of what no worker copies; no worker has recorded an end here, so nobody knows any but a live one."""
    worker = Worker(frozen=frozen)
    worker.look()
    (lag,) = worker.verdicts.seen[MirrorName("m0")].lags.values()
    assert lag.offsets == (None if frozen else 10)


def test_a_thread_of_verdicts_that_had_died_was_alive_for_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdicts would only become old."""
    verdicts = Worker().verdicts
    service = cast("Service", SimpleNamespace(health=lambda others: replace(WELL, ended=[o.ended for o in others])))
    asked: list[Callable[[], WorkerFacts]] = []
    served = SimpleNamespace(start=lambda: None, stop=lambda: None)

    def monitored(_port: int, _collector: object, facts: Callable[[], WorkerFacts]) -> object:
        asked.append(facts)
        return served

    monkeypatch.setattr(monitoring, "Monitoring", monitored)
    with _monitored(service, verdicts, SystemClock(), 1, needs_port=True):
        assert asked[0]().ended == [""]
        monkeypatch.setattr(verdicts, "_held", lambda: 1 / 0)
        verdicts.join(10)
        assert asked[0]().ended == ["thread verdicts does not run: ZeroDivisionError('division by zero')"]
