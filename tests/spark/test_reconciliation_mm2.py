"""A copy by MirrorMaker 2, killed on the way: every position is the true one, where MM2's own are a guess."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from bench import mm2_run
from bench.load import Load
from bench.pair import Pair
from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist.spark.reconciliation.job import reconcile
from tests.kafka.fetcher.logs import Row, read
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tanist_testkit.sandbox.processes import Guardian
    from tests.kafka.fetcher.rig import Rig

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]
BATCH, BATCHES = 100, 60
ABORTED = len(range(5, BATCHES, 5))
COMMITTED = BATCHES - 1 - ABORTED


def write(rig: Rig, at: MirrorPartition, batches: range) -> None:
    """Transactions, every fifth of them aborted: the source's offsets have gaps that the copy has not."""
    for batch in batches:
        values = [b"%d.%d" % (batch, n) for n in range(BATCH)]
        rig.source.transaction(at, values, commit=batch % 5 != 0)


def test_every_position_in_a_copy_by_mirrormaker_is_the_true_one(
    spark: SparkSession, rig: Rig, guardian: Guardian, topic_name: str, tmp_path: Path
) -> None:
    """Gaps of transactions at the source, records that come twice after kill -9: held against each record's copies.

    MirrorMaker copies aborted records, too. Who stands at one of those goes on behind the copy before it.
    """
    (at,) = rig.source.create(topic_name)
    copy = type(at)(mm2_run.copy_of(topic_name), 0)
    pair = Pair(rig.source.cluster, rig.destination.cluster, tmp_path, guardian, SystemClock())
    write(rig, at, range(1, BATCHES // 2))
    load = Load(topic=topic_name, size=0, records=BATCHES * BATCH, target=0)
    first = mm2_run.start(pair, load)
    until(lambda: rig.destination.end(copy, End.HIGH_WATERMARK) > BATCH, 120)
    write(rig, at, range(BATCHES // 2, BATCHES))
    first.send(signal.SIGKILL)
    rig.source.settle([at])
    ours = read(rig.source.servers, [at], "read_committed")[at]
    second = mm2_run.start(pair, load)
    try:
        until(lambda: ours[-1].value in {row.value for row in theirs(rig, copy)}, 150)
    finally:
        pair.end(second)
    last_copies = {row.value: row.offset for row in theirs(rig, copy)}
    truth = {row.offset: last_copies[row.value] for row in ours}
    end = rig.source.end(at)
    job = ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=(TopicPair(topic_name, copy.topic, 1),),
        positions=tuple(PositionRequest(topic_name, 0, offset) for offset in range(end + 1)),
    )
    result = reconcile(spark, job, tmp_path, lambda _: None)
    (partition,) = result["partitions"]
    assert (partition["copied"], partition["lost"]) == (len(ours), 0), partition
    assert partition["runs"] >= COMMITTED - 1, "each marker is a gap"
    assert partition["others"] >= ABORTED * BATCH
    for answer in result["positions"]:
        position = answer["source_offset"]
        behind = max((there for offset, there in truth.items() if offset < position), default=-1) + 1
        ahead = min((there for offset, there in truth.items() if offset >= position), default=behind)
        assert answer["destination_offset"] == (ahead if position in truth else min(behind, ahead)), answer


def theirs(rig: Rig, copy: MirrorPartition) -> list[Row]:
    return read(rig.destination.servers, [copy], "read_committed")[copy]
