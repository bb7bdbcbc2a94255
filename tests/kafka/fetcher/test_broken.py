"""One partition that cannot go on fails alone, by name, before anything wrong is written."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import SourceTopicRecreated
from tanist.domain.names import EpochMs, topic_id_text
from tanist.domain.records import TopicDesired
from tanist.domain.states import DesiredState, Finding
from tanist.fetcher.planning import Owned
from tanist.fetcher.sources import LOOK_EVERY_SECONDS, SourceLeaders, SourceTopic
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import MirrorPartition

ALONE = {"min.insync.replicas": "1"}


def damage(side: RigCluster, broker: int, at: MirrorPartition, marker: bytes) -> None:
    """Flip a byte of a record on the disk, with the broker down; it was shut down well, so it does not look again."""
    [node] = [b for b in side.cluster.brokers if b.id == broker]
    assert node.pid
    os.kill(node.pid, signal.SIGTERM)
    until(lambda: not next(b for b in side.cluster.brokers if b.id == broker).alive, 20)
    [log] = side.cluster.directory.glob(f"**/node-{broker}/**/{at}/00000000000000000000.log")
    content = log.read_bytes()
    assert content.count(marker) == 1
    log.write_bytes(content.replace(marker, marker[:-1] + bytes([marker[-1] ^ 1])))
    side.cluster.start_broker(broker)
    until(lambda: side.complete(at.topic, 3), 20)


def test_a_damaged_batch_stops_its_partition_and_no_other(out_of_trio: Rig, topic_name: str) -> None:
    """The source serves it without a look at the checksum."""
    rig = out_of_trio
    rig.destination.create(topic_name, 3)
    at = rig.source.create(topic_name, 3, brokers=[1], config=ALONE)
    for each in at:
        batches(rig, each, 2)
        rig.source.produce(each, [b"unmistakable"])
        batches(rig, each, 2)
    damage(rig.source, 1, at[1], b"unmistakable")
    with rig.copier(at) as copier:
        assert broken(copier, at[1]) == "CORRUPT_BATCH"
        rig.copied(copier, only=[at[0], at[2]])
        batches(rig, at[0], 1)
        rig.copied(copier, only=[at[0]])
        assert "20" in str(copier.reports()[at[1]].error)
    assert rig.identical([at[0], at[2]]) == ""
    assert rig.destination.end(at[1], End.LOG_END) == 20


def compacted(side: RigCluster, at: MirrorPartition, settings: Mapping[str, str]) -> None:
    """A log with holes."""
    topic = at.topic
    producer = side.producer(linger_ms=0)
    side.create(topic, 2, brokers=[1], config=settings)

    def holes() -> bool:
        for n in range(3):
            producer.produce(topic, os.urandom(200), key=b"%d" % n, partition=0)
        producer.flush(10)
        time.sleep(0.15)  # noqa: TID251  # a segment must be old enough to be rolled
        rows = read(side.servers, [at], "read_committed")[at]
        return len(rows) < side.end(at)

    until(holes, 40)


def test_a_hole_that_compaction_left_is_not_closed_in_silence(out_of_trio: Rig, topic_name: str) -> None:
    rig = out_of_trio
    at, other = rig.destination.create(topic_name, 2)
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
    }
    compacted(rig.source, at, settings | ALONE)
    with rig.copier([at, other]) as copier:
        assert broken(copier, at) == "COMPACTION_HOLE"
        producer = rig.source.producer()
        for n in range(20):  # each by a key of its own: of these the cleaner takes none
            producer.produce(other.topic, b"%d" % n, key=b"%d" % n, partition=other.partition)
        assert producer.flush(20) == 0
        rig.copied(copier, only=[other])
    assert rig.identical([other]) == ""
    copied = rig.read([at])[1][at]
    assert copied == rig.read([at])[0][at][: len(copied)]


def recreate(side: RigCluster, topic: str) -> None:
    side.admin.delete_topics([topic])[topic].result(20)

    def gone() -> bool:
        side.router.refresh([topic], soon())
        return side.router.topics()[topic].error is not None

    until(gone, 10)
    side.create(topic)


def test_a_source_topic_that_was_made_anew_is_told_from_the_old_one(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    rig.source.router.refresh([topic_name], soon())
    topic_id = rig.source.router.topics()[topic_name].topic_id
    assert topic_id is not None
    topic = TopicDesired(
        mirror=rig.spec.mirror,
        topic=topic_name,
        desired=DesiredState.MIRRORING,
        source_topic_id=topic_id_text(topic_id),
        partitions=1,
        changed_at=EpochMs(0),
    )
    mine = Owned(rig.spec, topic, at, 7)
    leaders = SourceLeaders(rig.source.cluster.endpoint, "test", SystemClock())
    try:
        leaders.look(rig.spec, {topic_name: SourceTopic(1)}, soon(), stale=False)
        assert leaders.report(mine) is None
        recreate(rig.source, topic_name)

        def noticed() -> bool:
            leaders.look(rig.spec, {topic_name: SourceTopic(1)}, soon(), stale=True)
            return leaders.report(mine) is not None

        until(noticed, 10)
        report = leaders.report(mine)
        assert report is not None
        assert report.finding is Finding.BROKEN
        assert isinstance(report.error, SourceTopicRecreated)
    finally:
        leaders.close()
    old = replace(topic, source_topic_id="")
    assert leaders.report(Owned(rig.spec, old, at, 7)) is None


@pytest.mark.parametrize("worker", ["up", "down"])
def test_records_of_a_topic_that_was_made_anew_are_never_appended_to_those_of_the_old_one(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, worker: str
) -> None:
    """The new log is longer than the old one, and nobody has compared topic ids yet."""
    [at] = rig.create(topic_name)
    batches(rig, at, 2)
    with rig.copier([at]) as copier:
        rig.copied(copier)
        if worker == "up":
            monkeypatch.setattr(SourceLeaders, "look", lambda *_, **__: None)
            monkeypatch.setattr("tanist.fetcher.engines.batches.partition.READ_AGAIN_SECONDS", 3.0)
            recreate(rig.source, topic_name)
            batches(rig, at, 5)
            assert broken(copier, at) == "SOURCE_TOPIC_RECREATED"
    if worker == "down":
        recreate(rig.source, topic_name)
        batches(rig, at, 5)
        with rig.copier([at], name="w2") as copier:
            assert broken(copier, at) == "DIVERGED"
    assert rig.destination.end(at, End.LOG_END) == 20


def test_a_partition_that_had_no_leader_for_a_moment_is_copied_as_soon_as_it_has_one(rig: Rig, topic_name: str) -> None:
    """Not when leaders are looked up the next time anyway."""
    [at] = rig.create(topic_name)
    with rig.copier([at], topic_ids={}) as copier:  # another topic serves as well
        rig.copied(copier)
        rig.source.admin.delete_topics([topic_name])[topic_name].result(20)
        until(lambda: at not in copier.reports(), 10)
        rig.source.create(topic_name)
        batches(rig, at, 1)
        rig.copied(copier, LOOK_EVERY_SECONDS - 3)
