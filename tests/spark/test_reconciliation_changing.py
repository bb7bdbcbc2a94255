"""What changes while two logs are reconciled: what is told is right, or unknown."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tanist.domain.errors import TopicReplaced
from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
from tanist.kafka.wire.requests import End
from tanist.spark.reconciliation.digests import Bucket
from tanist.spark.reconciliation.job import bounds, reconcile, reconciled_log
from tanist.spark.reconciliation.runs import Runs
from tests.kafka.fetcher.rig import Rig, RigCluster, until
from tests.spark.forging import append, flipped, written
from tests.spark.test_changing import again, full_speed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conftest import ClusterFactory

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]
RECORDS, PAIRS = "records:", "which record is which"
"""The stages that read."""


def a_job(rig: Rig, *pairs: TopicPair) -> ReconciliationJob:
    return ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=pairs,
    )


def while_read(
    spark: SparkSession,
    job: ReconciliationJob,
    folder: Path,
    changes: dict[str, Callable[[], None]],
    size: int = 20_000,
) -> dict[str, Any]:
    """The result; `changes` come as their stages begin."""
    left = dict(changes)

    def report(stage: str) -> None:
        for begins in list(left):
            if stage.startswith(begins):
                left.pop(begins)()

    result = reconcile(spark, job, folder, report, size)
    assert not left
    return result


def test_a_topic_created_again_while_its_ends_are_read_is_unknown_though_it_is_empty(rig: Rig, topic_name: str) -> None:
    """No task reads an empty log, so nobody looked: every record of the other side was said to be foreign, or lost."""
    ours, theirs, same = (rig.create(f"{topic_name}-{name}")[0] for name in ("ours", "theirs", "same"))
    for at in (ours, theirs, same):
        append(rig.destination, at, written(rig.source, at))

    def meanwhile(stage: str) -> None:
        if stage.startswith("ends of the destination"):
            again(rig.destination, theirs.topic)
            again(rig.source, ours.topic)

    found = bounds(a_job(rig, *(TopicPair(at.topic, at.topic, 1) for at in (ours, theirs, same))), meanwhile)
    assert isinstance(found[0].source, TopicReplaced)
    assert found[0].trouble.startswith("source: TOPIC_REPLACED")
    assert found[1].trouble.startswith("destination: TOPIC_REPLACED")
    assert not found[2].trouble


def test_what_changes_between_the_digests_and_the_records_is_right_or_unknown(
    spark: SparkSession, rig: Rig, topic_name: str, tmp_path: Path
) -> None:
    """Logs that differ are read again; meanwhile one grows, two lose their heads, and one topic is another."""
    names = ("growing", "same", "differs", "cut", "cut-copy", "replaced")
    growing, same, *differ = (rig.create(f"{topic_name}-{name}")[0] for name in names)
    append(rig.destination, same, written(rig.source, same))
    for at in differ:
        first, *rest = written(rig.source, at)
        append(rig.destination, at, [flipped(first), *rest])
    _, cut, cut_copy, replaced = differ

    def change() -> None:
        rig.source.delete_before(cut, 30)
        rig.destination.delete_before(cut_copy, 30)
        again(rig.source, replaced.topic)

    job = a_job(rig, *(TopicPair(at.topic, at.topic, 1) for at in (growing, same, *differ)))
    asked = [PositionRequest(at.topic, 0, offset) for at in (growing, same) for offset in (0, 7)]
    with full_speed(rig.source, growing), rig.copier([growing]):
        until(lambda: rig.destination.end(growing) > 100, 60)
        result = while_read(spark, replace(job, positions=tuple(asked)), tmp_path, {PAIRS: change})
    found = dict(zip(names, result["partitions"], strict=True))
    grown = found["growing"]
    assert not grown["reason"]
    assert (grown["runs"], grown["moved"], grown["others"]) == (1, 0, 0), grown
    assert grown["copied"] == grown["destination"]["records"] > 100
    assert grown["lost"] == grown["behind"] == grown["source"]["records"] - grown["copied"]
    assert [(each["destination_offset"], each["precision"]) for each in result["positions"]] == [
        (0, "exact"),
        (7, "exact"),
    ] * 2
    assert [found["same"][name] for name in ("copied", "lost", "others")] == [50, 0, 0]
    assert [found["differs"][name] for name in ("copied", "lost", "foreign")] == [49, 1, 1]
    assert found["cut"]["reason"].startswith("source: OFFSET_OUT_OF_RANGE")
    assert found["cut-copy"]["reason"].startswith("destination: OFFSET_OUT_OF_RANGE")
    assert found["replaced"]["reason"].startswith("source: TOPIC_REPLACED")
    assert result["unknown"] == 3


def test_records_that_are_compacted_between_the_digests_and_the_records_make_a_log_unknown() -> None:
    """Ten records had digests, nine were paired: what became of the tenth cannot be told."""
    columns = ([0, 5], [0, 5], [5, 4], [5, 4])
    runs = Runs(*(np.array(column, np.int64) for column in columns))
    for source, destination in ((10, 9), (9, 10), (9, 9)):
        bucket = Bucket(0, 0, source, 0, 9, 0, destination, 0, 9, 0, 0, equal=False)
        found = reconciled_log([bucket], [(runs, Runs.none())], 10)
        assert found.trouble.startswith("records were compacted") == (source + destination > 18), found.trouble


@pytest.mark.long
def test_a_broker_that_is_killed_while_it_is_read_and_comes_back_costs_time_only(
    spark: SparkSession, rig: Rig, cluster_factory: ClusterFactory, topic_name: str, tmp_path: Path
) -> None:
    """The only one of the source, so that nobody else can lead, in each of the two stages that read."""
    side = RigCluster(cluster_factory("killed-meanwhile", brokers=1))
    try:
        own = Rig(side, rig.destination)
        at = own.create(topic_name, 3)
        for each in at:
            first, *rest = written(side, each, 200)
            append(rig.destination, each, [flipped(first), *rest])
        job = a_job(own, TopicPair(topic_name, topic_name, 3))
        [number] = [broker.id for broker in side.cluster.brokers]
        for stage in (RECORDS, PAIRS):
            back = threading.Thread(target=side.cluster.start_broker, args=(number, 120.0))

            def change(back: threading.Thread = back) -> None:
                side.cluster.kill(number)
                back.start()

            found = while_read(spark, job, tmp_path, {stage: change}, 100)["partitions"]
            back.join()
            for each in found:
                assert each["reason"] or [each[name] for name in ("copied", "lost", "foreign")] == [1999, 1, 1], each
        assert side.ends(at, End.LAST_STABLE) == dict.fromkeys(at, 2000)
        found = while_read(spark, job, tmp_path, {}, 100)["partitions"]
        assert [(each["copied"], each["reason"]) for each in found] == [(1999, "")] * 3, found
    finally:
        side.close()
