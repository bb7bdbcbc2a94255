"""A source that loses committed records, and then has others at their offsets: what follows is not copied."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tanist.domain.broker_errors import UnknownTopicId
from tanist.domain.compaction import Holes
from tanist.domain.names import BrokerId, EpochMs, SourceOffset, SourcePartition
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.kafka.adapters.divergent_tails import KafkaDivergentTails
from tanist.kafka.protocol.frames import FetchLimits, FetchPosition
from tanist.kafka.wire.connection import ReceiveBuffer
from tanist.kafka.wire.hot import Fetches
from tanist.kafka.wire.requests import End
from tanist.ports.tails import CopiedSpan
from tests.kafka.fetcher.copier import SLICE
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until
from tests.kafka.fetcher.test_broken import ALONE, recreate
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from tanist.domain.names import MirrorPartition
    from tanist.kafka.protocol.frames import FetchedPartition


def log_of(side: RigCluster, at: MirrorPartition) -> Path:
    [log] = side.cluster.directory.glob(f"**/node-1/**/{at}")
    return log


def lose_power(side: RigCluster, at: MirrorPartition, kept: Path) -> None:
    """Broker 1 comes back with what of its log was `kept`: Kafka acknowledges before anything is on a disk."""
    side.cluster.kill(1)
    log = log_of(side, at)
    shutil.rmtree(log)
    shutil.copytree(kept, log)
    side.cluster.start_broker(1)
    until(lambda: side.complete(at.topic, 1), 30)


def test_records_written_over_lost_ones_are_not_copied(out_of_trio: Rig, topic_name: str, tmp_path: Path) -> None:
    rig, kept = out_of_trio, tmp_path / "kept"
    rig.destination.create(topic_name)
    [at] = rig.source.create(topic_name, brokers=[1], config=ALONE)
    batches(rig, at, 5)
    shutil.copytree(log_of(rig.source, at), kept)
    batches(rig, at, 5)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    end = rig.source.end(at)
    lose_power(rig.source, at, kept)
    batches(rig, at, 8)
    with rig.copier([at]) as copier:
        assert broken(copier, at) == "SOURCE_TRUNCATED", copier.reports()[at]
        assert f"lost its offsets {end // 2} to {end - 1}" in str(copier.reports()[at].error)
    assert rig.destination.end(at, End.LOG_END) == end


def test_records_are_not_copied_behind_lost_ones_where_a_compacted_log_has_none_to_compare(
    out_of_trio: Rig, topic_name: str, tmp_path: Path
) -> None:
    """They were: the source had no record at the offsets of the lost ones, which says nothing in a compacted log.

    An aborted transaction takes the place of a cleaner here: it, too, leaves offsets without a record.
    """
    rig, kept = out_of_trio, tmp_path / "kept"
    rig.destination.create(topic_name)
    [at] = rig.source.create(topic_name, brokers=[1], config=ALONE)
    batches(rig, at, 5)
    shutil.copytree(log_of(rig.source, at), kept)
    batches(rig, at, 5)
    with rig.copier([at], holes=Holes.COPIES) as copier:
        rig.copied(copier)
        seen = copier.reports()[at]
    ends = SourceEnd(
        SourcePartition(*at),
        SourceOffset(100),
        SourceOffset(100),
        record_until=seen.record_until,
        record_epoch=seen.record_epoch,
    )
    rig.store.append([SourceEnds(mirror=rig.spec.mirror, chunk=SLICE, ends=(ends,), at=EpochMs(0))], soon())
    lose_power(rig.source, at, kept)
    rig.source.transaction(at, [b"%d" % n for n in range(60)], commit=False)
    batches(rig, at, 2)
    with rig.copier([at], holes=Holes.COPIES, name="w2") as copier:
        assert broken(copier, at) == "SOURCE_TRUNCATED", copier.reports()[at]
        assert "lost its offsets 50 to 99" in str(copier.reports()[at].error)
    assert rig.destination.end(at, End.LOG_END) == 100


def test_a_fetch_says_which_history_and_which_topic_it_goes_on_with(trio: RigCluster, topic_name: str) -> None:
    """A worker that was frozen while a leader lost records, or a topic was created again, reads none of these."""
    [at] = trio.create(topic_name, brokers=[1, 2], config=ALONE)
    trio.produce(at, [b"%d" % n for n in range(10)])
    trio.router.refresh([topic_name], soon())
    first, topic_id = trio.router.leader_epoch(at), trio.router.topics()[topic_name].topic_id
    trio.cluster.kill(1)
    until(lambda: trio.leader(at) == 2, 30)
    trio.produce(at, [b"%d" % n for n in range(10)])
    trio.cluster.start_broker(1)
    until(lambda: trio.complete(topic_name, 1), 30)
    then = trio.router.leader_epoch(at)
    assert then > first

    def fetched(offset: int, last_epoch: int, of: UUID | None) -> FetchedPartition:
        fetches = Fetches(trio.router.connection(BrokerId(trio.leader(at)), soon(), "history"))
        position = FetchPosition(topic_name, 0, offset, 1 << 20, last_epoch, of)
        fetches.post([position], FetchLimits(max_wait_ms=100), soon())
        return fetches.receive(ReceiveBuffer(), soon()).partitions[0]

    for of in (topic_id, None):
        assert fetched(15, first, of).diverging == (first, 10)
        assert not len(fetched(15, first, of).records)
        for offset, epoch in ((10, first), (15, then), (15, -1)):
            assert len(fetched(offset, epoch, of).records)
            assert fetched(offset, epoch, of).diverging is None
    another = fetched(15, then, uuid4())
    assert (another.error_code, len(another.records)) == (UnknownTopicId.code, 0)


def test_an_epoch_that_was_stored_early_does_not_count_copied_records_as_left_at_the_source(
    trio: RigCluster, topic_name: str
) -> None:
    """The survey of an old source ended the common part where the stored epoch ended, and would have them replayed.

    The copy is the log itself: both agree to the end.
    """
    [at] = trio.create(topic_name, brokers=[1, 2], config=ALONE)
    trio.produce(at, [b"%d" % n for n in range(100)])
    trio.router.refresh([topic_name], soon())
    stored = trio.router.leader_epoch(at)
    trio.cluster.kill(1)
    until(lambda: trio.leader(at) == 2, 30)
    trio.produce(at, [b"%d" % n for n in range(100)])
    trio.cluster.start_broker(1)
    until(lambda: trio.complete(topic_name, 1), 30)
    tails = KafkaDivergentTails(trio.router, trio.router)
    for epoch in (-1, stored, trio.router.leader_epoch(at)):
        assert tails.common_ends({at: CopiedSpan(200, 200, epoch)}, soon()) == {at: 200}


def test_a_source_topic_that_was_created_again_is_named_by_a_worker_that_resumes(rig: Rig, topic_name: str) -> None:
    """It was DIVERGED, if its new log had reached the copy before anybody looked at its id."""
    [at] = rig.create(topic_name)
    batches(rig, at, 3)
    rig.source.router.refresh([topic_name], soon())
    added = {topic_name: rig.source.router.topics()[topic_name].topic_id}
    with rig.copier([at]) as copier:
        rig.copied(copier)
    recreate(rig.source, topic_name)
    batches(rig, at, 5)
    with rig.copier([at], topic_ids=added) as copier:
        assert broken(copier, at) == "SOURCE_TOPIC_RECREATED", copier.reports()[at]
    assert rig.destination.end(at, End.LOG_END) == 30


def segments(side: RigCluster, at: MirrorPartition) -> list[Path]:
    """The log of `at` on each broker, as long as it has one segment."""
    return sorted(side.cluster.directory.glob(f"**/node-*/**/{at}/00000000000000000000.log"))


def cut_power(side: RigCluster, at: MirrorPartition, kept: int) -> None:
    """Of the whole cluster: of each log only `kept` bytes were on a disk, and the next batch in part."""
    side.cluster.kill()
    logs = segments(side, at)
    assert len(logs) == side.cluster.spec.brokers
    for log in logs:
        assert log.stat().st_size > kept + 100
        os.truncate(log, kept + 100)
    side.cluster.start()
    until(lambda: side.complete(at.topic, 1), 60)


@pytest.mark.long
@pytest.mark.parametrize("later", [0, 2, 9], ids=["nothing", "less", "more"])
@pytest.mark.parametrize("worker", ["running", "away"])
def test_after_a_power_cut_of_the_whole_source_the_lost_range_is_reported_and_nothing_appended(
    out_of_trio: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, worker: str, later: int
) -> None:
    """Kafka acknowledges before a record is on any disk. Batches of ten: four are left of nine; then others come."""
    monkeypatch.setattr("tanist.fetcher.fetcher_thread.TRUNCATED_AFTER_SECONDS", 3.0)
    rig = out_of_trio
    rig.destination.create(topic_name)
    [at] = rig.source.create(topic_name, brokers=[1, 2, 3])
    batches(rig, at, 4)
    until(lambda: len({log.stat().st_size for log in segments(rig.source, at)}) == 1, 10)
    kept = segments(rig.source, at)[0].stat().st_size
    batches(rig, at, 5)

    def lose_the_end() -> None:
        cut_power(rig.source, at, kept)
        assert rig.source.end(at) == 40
        batches(rig, at, later)

    with rig.copier([at]) as copier:
        rig.copied(copier)
        if worker == "running":
            lose_the_end()
            assert broken(copier, at) == "SOURCE_TRUNCATED", copier.reports()[at]
            assert "offsets 40 to 89" in str(copier.reports()[at].error)
    if worker == "away":
        lose_the_end()
        with rig.copier([at], name="w2") as copier:
            assert broken(copier, at) == "SOURCE_TRUNCATED", copier.reports()[at]
            assert "offsets 40 to 89" in str(copier.reports()[at].error)
    assert rig.destination.end(at, End.LOG_END) == 90
