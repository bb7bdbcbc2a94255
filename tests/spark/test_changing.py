"""What changes while it is compared: the verdict is right, or unknown; never equal or different without being so."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import TopicReplaced
from tanist.domain.validation.job import Level
from tanist.kafka.wire.requests import End
from tanist.spark import ends
from tanist.spark.validation import validate
from tests.kafka.fetcher.rig import Rig, RigCluster, until
from tests.spark.asking import validation_job
from tests.spark.forging import append, flipped, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tanist.domain.validation.job import ValidationJob
    from tests.conftest import ClusterFactory

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]
BOTH = pytest.mark.parametrize("level", [Level.RECORDS, Level.BATCHES])


@contextmanager
def full_speed(side: RigCluster, at: MirrorPartition) -> Iterator[None]:
    """A producer writes all the time, no two records alike, and has written when this begins."""
    over, numbers = threading.Event(), count()
    producer = side.producer()

    def write() -> None:
        while not over.is_set():
            for _ in range(100):
                producer.produce(at.topic, b"%100d" % next(numbers), partition=at.partition)
            producer.flush(20)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        until(lambda: side.end(at) > 0, 20)
        yield
    finally:
        over.set()
        writer.join(60)


def again(side: RigCluster, topic: str) -> None:
    """Delete a topic, and create another one of its name."""
    side.admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in side.admin.list_topics(timeout=10).topics, 20)
    until(lambda: side.create(topic), 20)


def while_read(spark: SparkSession, job: ValidationJob, change: Callable[[], None]) -> list[dict[str, Any]]:
    """The partitions of the result; `change` comes when the bounds are fixed and nothing is read yet."""
    changed = []

    def report(stage: str) -> None:
        if "offsets of the source" in stage:
            change()
            changed.append(stage)

    result = validate(spark, job, report)
    assert len(changed) == 1
    partitions: list[dict[str, Any]] = result["partitions"]
    return partitions


@pytest.mark.long
@BOTH
def test_what_changes_while_it_is_read_is_right_or_unknown(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """Producers at full speed, DeleteRecords on either side, a topic created again on either side; one that differs."""
    growing, early, late, behind, wrong = rig.create(topic_name, 5)
    ours, theirs = (rig.create(f"{topic_name}-{side}")[0] for side in ("ours", "theirs"))
    for at in (early, late, behind, ours, theirs):
        append(rig.destination, at, written(rig.source, at))
    append(rig.destination, wrong, [flipped(each) for each in written(rig.source, wrong)])

    def change() -> None:
        rig.source.delete_before(early, 30)
        rig.destination.delete_before(late, 34)
        rig.source.delete_before(behind, 50)
        rig.destination.delete_before(behind, 50)
        again(rig.source, ours.topic)
        again(rig.destination, theirs.topic)

    partitions = (growing, early, late, behind, wrong, ours, theirs)
    with full_speed(rig.source, growing), rig.copier([growing]):
        until(lambda: rig.destination.end(growing) > 0, 40)
        found = while_read(spark, validation_job(rig, partitions, level, settle_seconds=15.0), change)
    verdicts = dict(zip(partitions, [each["verdict"] for each in found], strict=True))
    assert verdicts[growing] == "EQUAL" or "are not copied yet" in found[0]["reason"], found[0]
    assert found[0]["destination"]["records"] > 0
    assert verdicts[wrong] == "DIFFERENT"
    assert {verdicts[at] for at in (early, late, behind, ours, theirs)} == {"UNKNOWN"}, found
    assert all("TOPIC_REPLACED" in each["reason"] for each in found[5:]), found[5:]


def test_a_topic_created_again_while_its_ends_are_read_lacks_nothing_at_its_start(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new source begins at 0, the copy of the old one at 30: DIFFERENT, with 30 offsets missing, was said of it."""
    [at] = rig.create(topic_name)
    append(rig.destination, at, written(rig.source, at))
    for side in (rig.source, rig.destination):
        side.delete_before(at, 30)
    settled = ends._settled

    def created_again(*given: Any) -> Any:
        theirs = settled(*given)
        again(rig.source, at.topic)
        return theirs

    monkeypatch.setattr(ends, "_settled", created_again)
    found = ends.fix(validation_job(rig, [at], Level.RANGES))[at]
    assert isinstance(found, TopicReplaced), found


@pytest.mark.long
@BOTH
def test_a_broker_that_is_killed_while_it_is_read_and_comes_back_costs_time_only(
    spark: SparkSession, rig: Rig, cluster_factory: ClusterFactory, topic_name: str, level: Level
) -> None:
    """The only one of the source, so that nobody else can lead; a producer writes before and after."""
    side = RigCluster(cluster_factory("killed", brokers=1))
    try:
        own = Rig(side, rig.destination)
        at = own.create(topic_name, 3)
        for each in at:
            append(rig.destination, each, written(side, each, 200))
        [number] = [broker.id for broker in side.cluster.brokers]
        back = threading.Thread(target=side.cluster.start_broker, args=(number, 120.0))

        def change() -> None:
            side.cluster.kill(number)
            back.start()

        found = while_read(spark, validation_job(own, at, level), change)
        back.join()
        assert {each["verdict"] for each in found} <= {"EQUAL", "UNKNOWN"}, found
        assert side.ends(at, End.LAST_STABLE) == dict.fromkeys(at, 2000)
        found = while_read(spark, validation_job(own, at, level), lambda: None)
        assert {each["verdict"] for each in found} == {"EQUAL"}, found
    finally:
        side.close()
