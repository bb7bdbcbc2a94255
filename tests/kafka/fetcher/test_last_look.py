"""Only an answer of the source is a look, whoever fetches: killed sources, late, restarted and earlier workers."""

from __future__ import annotations

import signal
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as At

from tanist.domain.lag import last_known
from tanist.domain.names import MirrorName, MirrorPartition, SourcePartition
from tanist.domain.records import (
    GROUPS_TOPIC,
    STATE_PARTITIONS,
    STATE_TOPIC,
    GroupSyncStatus,
    MirrorSpec,
    OffsetTailMode,
    WorkerAlive,
)
from tanist.domain.source_ends import EndsConfirmed, SourceEnd, SourceEnds
from tanist.domain.state_record import state_partition_of
from tanist.domain.state_view import StateView, fold
from tanist.domain.states import MirrorState
from tanist.kafka.protocol.stored import Unreadable, decode
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.lag import KnownEnd
    from tanist.domain.names import EpochMs
    from tanist.domain.state_record import StateRecord
    from tanist_testkit.sandbox.processes import Guardian, Process
    from tests.conftest import ClientConfig

GROUP = "readers"
EARLIER = "tests.kafka.fetcher.earlier"
TAKE_OVER_SECONDS = 60
LONGEST_POLL_MS = 500
"""A fetch that finds nothing new: an answer counts from when it was asked for."""
DEAD_SECONDS = 12.0
"""Longer than ends of a living source stay unwritten."""


class Scene(NamedTuple):
    """A mirror of two topics. `beside`: the partition of `resting` is in the same stored record as that of `busy`."""

    pair: Pair
    mirror: MirrorName
    busy: MirrorPartition
    resting: MirrorPartition

    def records(self, topic: str = STATE_TOPIC) -> list[StateRecord]:
        """All that workers have ever written there; nothing is compacted so soon. Raises: it cannot be read."""
        options = {"group_id": "look", "enable_partition_eof": "true", "auto_offset_reset": "earliest"}
        consumer = Consumer(self.pair.west.client(**options))
        found: list[StateRecord] = []
        try:
            left = set(consumer.list_topics(topic, 20).topics[topic].partitions)
            consumer.assign([At(topic, n, OFFSET_BEGINNING) for n in left])
            while left:
                message = consumer.poll(20)
                assert message is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition() or 0)
                    continue
                record = decode(message.key() or b"", message.value())
                assert not isinstance(record, Unreadable), record
                found.append(record)
        finally:
            consumer.close()
        return found

    def view(self) -> StateView:
        return fold(StateView(), self.records())

    def written(self) -> list[SourceEnds | EndsConfirmed]:
        """Every record of source ends, in their order."""
        found = (each for each in self.records() if isinstance(each, SourceEnds | EndsConfirmed))
        return [each for each in found if each.mirror == self.mirror]

    def stored(self) -> list[SourceEnds]:
        return [each for each in self.written() if isinstance(each, SourceEnds)]

    def end(self, at: MirrorPartition) -> SourceEnd:
        chunks = self.view().source_ends(self.mirror)
        [found] = [
            chunk.current(end) for chunk in chunks for end in chunk.ends if end.partition == SourcePartition(*at)
        ]
        return found

    def known(self) -> dict[SourcePartition, KnownEnd]:
        return last_known(self.view(), self.mirror)

    def notes(self) -> list[GroupSyncStatus]:
        found = [each for each in self.records(GROUPS_TOPIC) if isinstance(each, GroupSyncStatus)]
        return [each for each in found if each.mirror == self.mirror]

    def followed(self) -> GroupSyncStatus:
        return self.notes()[-1]

    def now(self) -> EpochMs:
        return self.pair.clock.now()

    def earlier(self, name: str) -> Process:
        """A fetcher of the version before."""
        where = ("--config", self.pair.environment()["TANIST_CONFIG"], "--destination", "west", "--id", name)
        argv = [sys.executable, "-m", EARLIER, "fetcher", "run", *where]
        self.pair.workers[name] = self.pair.guardian.spawn(argv, self.pair.home / f"{name}.log")
        return self.pair.workers[name]

    def beats(self, name: str, after: EpochMs) -> bool:
        return any(isinstance(each, WorkerAlive) and each.worker == name and each.at > after for each in self.records())

    def end_worker(self, name: str) -> None:
        worker = self.pair.workers[name]
        worker.send(signal.SIGTERM)
        until(lambda: not worker.alive, 30)

    def kill_source(self) -> EpochMs:
        """When it was last alive, at the latest."""
        self.pair.east.cluster.kill()
        return self.now()


@pytest.fixture(scope="module")
def plain_pair(
    guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    home, east = tmp_path_factory.mktemp("look"), ClusterSpec(name="east", heap_mb=384)
    with running(guardian, client_config, home, source=east, authorizer=False) as pair:
        yield pair


@pytest.fixture
def scene(plain_pair: Pair) -> Iterator[Scene]:
    """One worker copies both topics; a group reads one of them."""
    pair, mirror = plain_pair, MirrorName(f"look-{uuid4().hex[:6]}")
    pair.east.cluster.start()
    busy = MirrorPartition(f"{mirror}-busy", 0)
    chunk = state_partition_of(mirror, busy, STATE_PARTITIONS)
    names = (MirrorPartition(f"{mirror}-resting-{n}", 0) for n in count())
    resting = next(at for at in names if state_partition_of(mirror, at, STATE_PARTITIONS) == chunk)
    for at in (busy, resting):
        pair.east.topic(at.topic, 1)
        assert pair.east.writes(at.topic, range(10), partitions=1)
    pair.east.commit(GROUP, busy.topic, 7)
    pair.worker("w1")
    pair.tanist("mirrors", "create", mirror, "--source", "east", "--topic", f"{mirror}-.*")
    pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    scene = Scene(pair, mirror, busy, resting)
    until(lambda: scene.notes() and scene.followed().complete_until_ms and scene.followed().groups, 30, scene.notes)
    yield scene
    for worker in pair.workers.values():
        worker.send(signal.SIGKILL)
    pair.workers.clear()


def pause(scene: Scene, at: MirrorPartition) -> None:
    scene.pair.tanist("mirrors", "pause", scene.mirror, "--topic", at.topic)

    def paused() -> bool:
        held = scene.view().observed(scene.mirror, at)
        return held is not None and held.state is MirrorState.PAUSED

    until(paused, 30)


def seconds(wanted: float) -> None:
    time.sleep(wanted)  # noqa: TID251  # that nothing is written takes time to see


@pytest.mark.long  # test_dead_source.py kills one under load
def test_a_killed_source_is_stored_with_its_last_answer_and_then_stands_still(scene: Scene) -> None:
    """Idle partitions are seen all the same; a paused one is not; a restarted worker changes none of it."""
    before = {at: scene.end(at).at or 0 for at in (scene.busy, scene.resting)}
    until(lambda: all((scene.end(at).at or 0) >= then + 9_000 for at, then in before.items()), 14, scene.written)
    pause(scene, scene.resting)
    for n in range(20):
        assert scene.pair.east.writes(scene.busy.topic, range(n, n + 20), partitions=1)
    until(lambda: scene.end(scene.busy).rate > 0 and scene.end(scene.busy).high_watermark == 410, 20, scene.written)
    resting = scene.end(scene.resting)
    began = scene.now()
    dead = scene.kill_source()
    until(lambda: scene.end(scene.busy).silent_since is not None, 5, scene.written)
    last = scene.end(scene.busy)
    assert began - LONGEST_POLL_MS - 200 <= (last.at or 0) <= (last.silent_since or 0)
    assert (last.at or 0) <= dead
    assert (last.silent_since or 0) <= dead + 5_000
    assert (resting, resting.silent_since) == (scene.end(scene.resting), None)
    written = len(scene.written())
    seconds(DEAD_SECONDS)
    assert scene.end(scene.busy) == last
    assert len(scene.written()) == written

    complete = scene.followed()
    assert began - 10_000 <= complete.complete_until_ms <= dead
    scene.end_worker("w1")
    scene.pair.worker("w2")
    until(lambda: scene.followed().worker == "w2", TAKE_OVER_SECONDS, scene.followed)
    until(lambda: scene.followed().mode is OffsetTailMode.DEGRADED, TAKE_OVER_SECONDS, scene.followed)
    seconds(DEAD_SECONDS)
    assert (scene.followed().complete_until_ms, scene.followed().groups) == (
        complete.complete_until_ms,
        complete.groups,
    )
    assert scene.end(scene.busy) == last
    assert len(scene.written()) == written
    scene.pair.east.cluster.start()
    until(lambda: scene.end(scene.busy).silent_since is None, 60, scene.written)
    until(lambda: (scene.end(scene.busy).at or 0) > dead, 30, scene.written)
    assert scene.end(scene.resting) == resting
    until(lambda: scene.followed().complete_until_ms > dead, 60, scene.followed)


def test_a_worker_started_after_the_source_died_is_no_witness(scene: Scene) -> None:
    """What was written while nobody looked is unknown: not one record of it may look as if it had been seen."""
    for n in range(20):
        assert scene.pair.east.writes(scene.busy.topic, range(n, n + 20), partitions=1)
    until(lambda: scene.end(scene.busy).high_watermark == 410, 20, scene.written)
    scene.end_worker("w1")
    before = {at: scene.end(at) for at in (scene.busy, scene.resting)}
    complete = scene.followed().complete_until_ms
    assert scene.pair.east.writes(scene.busy.topic, range(1_000), partitions=1)
    seconds(2)
    dead = scene.kill_source()
    written = len(scene.written())
    scene.pair.worker("late")
    until(lambda: all(scene.end(at).silent_since for at in before), TAKE_OVER_SECONDS, scene.written)
    seconds(DEAD_SECONDS)
    for at, end in before.items():
        found = scene.end(at)
        assert (found.at, found.high_watermark, found.rate) == (end.at, end.high_watermark, end.rate)
        assert (found.silent_since or 0) >= dead
    assert len(scene.written()) == written + 1
    assert scene.followed().worker == "late"
    assert scene.followed().complete_until_ms == complete


@pytest.mark.long
def test_a_worker_of_the_version_before_runs_beside_and_after_this_one(scene: Scene) -> None:
    """Neither fails on the records of the other, and no last look is later than an answer."""
    first = scene.end(scene.busy)
    began = scene.now()
    scene.earlier("old")
    until(lambda: scene.beats("old", began), TAKE_OVER_SECONDS)
    scene.end_worker("w1")
    assert scene.pair.east.writes(scene.busy.topic, range(20), partitions=1)
    until(lambda: scene.end(scene.busy).high_watermark == 30, TAKE_OVER_SECONDS, scene.written)
    assert [end.at for record in scene.stored()[-1:] for end in record.ends] == [None, None]
    assert first.at is not None
    assert scene.known()[SourcePartition(*scene.busy)].at > first.at
    scene.pair.worker("w2")
    until(lambda: scene.beats("w2", began), TAKE_OVER_SECONDS)
    scene.end_worker("old")
    until(lambda: scene.stored()[-1].ends[0].at is not None, TAKE_OVER_SECONDS, scene.written)
    scene.earlier("old")
    began = scene.now()
    until(lambda: scene.beats("old", began), TAKE_OVER_SECONDS)
    dead = scene.kill_source()
    seconds(DEAD_SECONDS)
    seen = {at: end.at for at, end in scene.known().items()}
    assert all(dead - 11_000 <= at <= dead for at in seen.values()), (seen, dead)
    for leaving, staying in (("w2", "old"), ("old", "w3")):
        if staying not in scene.pair.workers or not scene.pair.workers[staying].alive:
            scene.pair.worker(staying)
        began = scene.now()
        scene.end_worker(leaving)
        until(lambda who=staying, then=began: scene.beats(who, then), TAKE_OVER_SECONDS)  # type: ignore[misc]
        seconds(DEAD_SECONDS)
        assert {at: end.at for at, end in scene.known().items()} == seen
    ends = scene.known()
    assert ends[SourcePartition(*scene.busy)].high_watermark == 30
    assert all(end.silent_since is not None and end.silent_since > end.at for end in ends.values()), ends
    for worker in ("old", "w2", "w3"):
        assert "thread died" not in (scene.pair.home / f"{worker}.log").read_text()
    assert any(isinstance(each, MirrorSpec) for each in scene.records())
