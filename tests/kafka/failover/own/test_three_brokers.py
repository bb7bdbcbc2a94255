"""A destination of three brokers loses the leader of a partition in the middle of the barrier, or a disk behind it."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.cli.main import main
from tanist.domain.broker_errors import InvalidProducerEpoch
from tanist.domain.errors import Interrupted
from tanist.domain.failover.evidence import from_json
from tanist.domain.names import MirrorPartition, mirror_name
from tanist.domain.records import RunStatus
from tanist.domain.writer_identity import ProducerIds
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.requests import fetch
from tanist.kafka.wire.router import Router
from tanist.ports.access import NOBODY
from tanist.ports.fencing import ProducerFence
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.failover.run import run
from tanist.usecases.failover.tools import Timeouts, Tools
from tanist.wiring.failover import Folder, runner
from tanist.wiring.registry import ClusterRegistry
from tests.fakes.halves import HALF, Halves
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until
from tests.kafka.opened import opened
from tests.storm.leaders import in_sync, move
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.ports.access import Opening
    from tanist.ports.clock import Deadline
    from tanist.usecases.failover.run import RunOutcome
    from tanist.usecases.mirror import OpenMirror
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

__all__ = ["opened"]
CLOCK = SystemClock()
BROKERS = 3
PARTITIONS = tuple(MirrorPartition("three", n) for n in range(6))


@dataclass
class Watched:
    """The port `Opening`: before it opens anything, every partition is behind a barrier."""

    real: Opening
    sealed: Callable[[], bool]
    opened: int = 0

    def has_authorizer(self, by: Deadline) -> bool:
        return self.real.has_authorizer(by)

    def open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, TanistError | None]:
        assert self.sealed()
        self.opened += 1
        return self.real.open(topics, by, mirrors, denied=denied)

    def deny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        return self.real.deny(topics, by)

    def undeny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        return self.real.undeny(topics, by)

    def give(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        return self.real.give(topics, by)

    def take_back(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        return self.real.take_back(topics, by)

    def close(
        self, topics: Mapping[str, Collection[str]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        return self.real.close(topics, by, mirrors)

    def is_open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, bool | TanistError]:
        return self.real.is_open(topics, by, mirrors, authorizer=authorizer, denied=denied)

    def shut_out(
        self,
        topics: Sequence[str],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
    ) -> Mapping[str, bool | TanistError]:
        return self.real.shut_out(topics, by, mirrors, authorizer=authorizer)

    def principal(self) -> str | None:
        return self.real.principal()

    def canary(self, mirror: MirrorName, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        assert self.sealed()
        return self.real.canary(mirror, topics, by)


@pytest.fixture(scope="module")
def trio(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home: Path = tmp_path_factory.mktemp("three-brokers")
    with running(guardian, client_config, home, brokers=BROKERS, properties={"log.cleaner.backoff.ms": "200"}) as pair:
        pair.east.topic("three", len(PARTITIONS))
        assert pair.east.writes("three", range(120), partitions=len(PARTITIONS))
        pair.tanist("mirrors", "create", "three", "--source", "east", "--topic", "three")
        pair.worker()
        pair.tanist("mirrors", "wait", "three", "--for", "lag=0", "--timeout", "200s")
        yield pair


@contextmanager
def at_work(pair: Pair, command: CommandContext, mirror: str = "three") -> Iterator[OpenMirror]:
    with ClusterRegistry(load(None, pair.environment())) as world:
        destination = world.connect("west")
        clusters = world.open_mirror(destination, mirror_name(mirror), command)
        yield clusters


def barriers(clusters: OpenMirror) -> dict[MirrorPartition, object]:
    spec = clusters.spec
    ids = dict.fromkeys(PARTITIONS, ProducerIds(spec.data_id, spec.marker_id, spec.start_id))
    return dict(clusters.destination.producer_fencing.proof(ids, CLOCK.deadline(30)))


def leader(pair: Pair, at: MirrorPartition) -> int:
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


def finished(pair: Pair, plan: str, losing: Callable[[str], None]) -> RunOutcome:
    """The run, continued on the same approval as often as it is interrupted."""
    by, opened = CLOCK.deadline(90), 0
    while True:
        command = CommandContext(clock=CLOCK, by=CLOCK.deadline(60))
        with at_work(pair, command) as clusters:
            watched = Watched(
                clusters.destination.opening, lambda: set(barriers(clusters).values()) == {ProducerFence.FENCED}
            )
            halves = Halves(clusters.destination.producer_fencing, losing)
            checked = replace(
                clusters, destination=replace(clusters.destination, opening=watched, producer_fencing=halves)
            )
            tools = Tools(
                patience=Timeouts(proof=0.5, drain=20, budget=2),
                sink=Folder(pair.home / plan),
                runner=runner(),
                checkpoint=losing,
            )
            try:
                outcome = run(plan, checked, tools, command, although_it_answers=True)
            except Interrupted:
                assert by.left(CLOCK.monotonic())
                continue
            finally:
                opened += watched.opened
            assert opened
            return outcome


@pytest.mark.long
def test_a_status_opens_one_connection_per_broker_and_one_consumer(
    trio: Pair, opened: Counter[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a destination of three brokers, however much is asked of each."""
    monkeypatch.setenv("TANIST_CONFIG", trio.environment()["TANIST_CONFIG"])
    monkeypatch.setattr(sys, "argv", ["tanist", "status", "three", "--destination", "west", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)
    assert set(opened.values()) == {1}
    assert set(opened) <= {
        "consumer",
        *(str(each) for side in (trio.east, trio.west) for each in side.cluster.endpoint().bootstrap),
    }


@pytest.mark.long  # `make test` lets a marker land late, and kills a run in each step
def test_the_leader_dies_in_the_middle_of_the_barrier(trio: Pair) -> None:
    """The run ends on the same approval; nothing is opened unsealed, and no replica lacks a record or a barrier."""
    before = trio.east.read("three", len(PARTITIONS))
    plan, killed = trio.approved("three"), list[int]()

    def losing(point: str) -> None:
        if point == HALF and not killed:
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
        with at_work(trio, CommandContext(clock=CLOCK, by=CLOCK.deadline(30))) as clusters:
            until(lambda: set(barriers(clusters).values()) == {ProducerFence.FENCED}, 20)


# ── a compacted topic ─────────────────────────────────────────────────────────────────────────────────────────────

PACKED, EMPTY = MirrorPartition("packed", 0), MirrorPartition("packed", 1)
CLEANED = {"segment_ms": "500", "delete_retention_ms": "100", "min_cleanable_dirty_ratio": "0.0"}


def first_replicas(pair: Pair) -> tuple[int, ...]:
    with Router(pair.west.cluster.endpoint(), "tanist-test") as router:
        router.refresh([PACKED.topic], CLOCK.deadline(10))
        return router.topics()[PACKED.topic].partitions[PACKED.partition].replicas


def batches(pair: Pair, producer: int) -> list[tuple[bool, int]]:
    """(control, records left) of all batches of a producer id."""
    with Router(pair.west.cluster.endpoint(), "tanist-test") as router:
        found = fetch(router, {PACKED: 0}, CLOCK.deadline(10), partition_max_bytes=1 << 24)[PACKED]
        assert not isinstance(found, Exception)
        headers = [header for header, _ in split(found.records)]
        return [(each.is_control, each.record_count) for each in headers if each.producer_id == producer]


def of_the_past(pair: Pair, producer: int) -> TanistError | None:
    """What an old worker is told that finds its door, with a record in its hands; None: it is in."""
    record = encode_batch([b"zombie"], producer=(producer, 0, 10), timestamp_ms=CLOCK.now())
    with Router(pair.west.cluster.endpoint(), "tanist-test") as router:
        router.refresh([PACKED.topic], CLOCK.deadline(10))
        appends = Appends(router.connection(router.leader(PACKED), CLOCK.deadline(10), channel="append"))
        appends.post([ProduceBatch(PACKED.topic, PACKED.partition, memoryview(record))], CLOCK.deadline(10))
        code = appends.collect(CLOCK.deadline(10)).partitions[0].error_code
    return None if code == NONE else error_for(code, "an old worker")


def disk_lost(pair: Pair, broker: int) -> None:
    """A broker comes back without the partition, and fetches what the cleaner has left of it."""
    pair.west.cluster.kill(broker)
    (lost,) = (pair.west.cluster.directory / f"node-{broker}").glob(f"data*/{PACKED.topic}-{PACKED.partition}")
    shutil.rmtree(lost)
    pair.west.cluster.start_broker(broker)
    until(lambda: in_sync(pair.west.cluster, [PACKED.topic]), 40)


def leads(pair: Pair, broker: int) -> bool:
    return leader(pair, PACKED) == broker


def led_by(pair: Pair, broker: int) -> None:
    """Until it is the leader; the others follow."""
    while leader(pair, PACKED) != broker:
        _, turn, *_ = first_replicas(pair)
        move(pair.west.cluster, [PACKED.topic], Each())
        until(partial(leads, pair, turn), 20)


@pytest.mark.long
def test_a_compacted_topic_keeps_its_barrier_where_a_replica_rebuilds_its_memory_from_the_log(trio: Pair) -> None:
    """The cleaner leaves an empty control batch of the marker, which tells nobody anything."""
    trio.east.topic("packed", 2, cleanup_policy="compact", **CLEANED)
    assert trio.east.writes("packed", range(10), partitions=1)
    trio.tanist("mirrors", "create", "packed", "--source", "east", "--topic", "packed")
    trio.tanist("mirrors", "wait", "packed", "--for", "lag=0", "--timeout", "200s")
    plan, where = trio.approved("packed"), str(trio.home / "packed")
    trio.tanist("failover", "run", "packed", "--plan", plan, "--fence-proof", "1s", "--evidence", where)
    with at_work(trio, CommandContext(clock=CLOCK, by=CLOCK.deadline(30)), "packed") as clusters:
        ours = clusters.spec.data_id
    for n in range(8):  # segments roll, and are cleaned
        assert trio.west.writes("packed", range(100 + n, 101 + n), partitions=1)
        CLOCK.wait(0.6)
    until(lambda: not any(records for _, records in batches(trio, ours)), 60)
    lost = first_replicas(trio)[-1]
    disk_lost(trio, lost)
    led_by(trio, lost)
    assert isinstance(of_the_past(trio, ours), InvalidProducerEpoch)
    reported = from_json((trio.home / "packed" / "evidence.json").read_text()).found("seal")
    assert list(reported["by_marker_alone"]) == [str(EMPTY)]
