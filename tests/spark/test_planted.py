"""Differences that were once taken for equality, and partitions that once hid all others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.validation.job import Level
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.varint import zigzag
from tanist.kafka.wire import requests
from tanist.spark.validation import validate
from tests.kafka.fetcher.rig import soon, until, value
from tests.spark.asking import kinds, named, validated, validation_job
from tests.spark.forging import append, flipped, written
from tests.unit.kafka.protocol.batches import encode_batch, seal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tanist.domain.names import TopicPartition
    from tests.kafka.fetcher.rig import Rig, RigCluster

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]
BOTH = pytest.mark.parametrize("level", [Level.BATCHES, Level.RECORDS])
STAMPED = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
KEPT = {"retention.ms": "-1"}


def ten(base: int, timestamp_ms: int) -> bytearray:
    values = [b"%d-%d" % (base, each) for each in range(10)]
    return encode_batch(values, base_offset=base, timestamp_ms=timestamp_ms)


def in_units(level: Level, records: int) -> int:
    """Batches of ten, or records."""
    return records // 10 if level is Level.BATCHES else records


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_a_destination_that_stamps_its_own_times_is_not_equal(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """LogAppendTime there, CreateTime here: a consumer of the copy gets other times."""
    rig.destination.create(topic_name, config=STAMPED)
    [at] = rig.source.create(topic_name, config=KEPT)
    append(rig.destination, at, written(rig.source, at))
    [found] = validated(spark, validation_job(rig, [at], level))["partitions"]
    assert found["verdict"] == "DIFFERENT"
    assert kinds(found) == {"changed": in_units(level, 50)}


@BOTH
def test_a_source_that_stamps_its_own_times_excuses_the_copy(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """The copy holds the times that its producers have set, or that its own brokers have."""
    both, ours = f"{topic_name}-both", f"{topic_name}-ours"
    for name, config in ((both, STAMPED), (ours, KEPT)):
        rig.destination.create(name, config=config)
    at = [rig.source.create(name, config=STAMPED)[0] for name in (both, ours)]
    for each in at:
        append(rig.destination, each, written(rig.source, each))
    assert validated(spark, validation_job(rig, at, level))["verdict"] == "EQUAL"


@BOTH
def test_one_stamped_record_excuses_no_other(spark: SparkSession, rig: Rig, topic_name: str, level: Level) -> None:
    """Once it switched the comparison of times off for the ten thousand offsets around it."""
    rig.destination.create(topic_name, config=KEPT)
    [at] = rig.source.create(topic_name, config=KEPT)
    now = time.time_ns() // 1_000_000
    made = [ten(10 * n, now - 60_000 + n) for n in range(4)]
    append(rig.source, at, made)
    stamp(rig.source, at.topic)

    def last_is_stamped() -> bool:
        """A broker takes a setting over a little after it was told."""
        made.append(ten(10 * len(made), now - 60_000 + len(made)))
        append(rig.source, at, made[-1:])
        fetched = value(requests.fetch(rig.source.router, {at: 10 * (len(made) - 1)}, soon())[at])
        return next(header for header, _ in split(fetched.records)).is_log_append_time

    until(last_is_stamped, 20)
    append(rig.destination, at, [made[0], made[1], ten(20, now - 30_000), *made[3:]])
    [found] = validated(spark, validation_job(rig, [at], level))["partitions"]
    assert found["verdict"] == "DIFFERENT"
    assert kinds(found) == {"changed": in_units(level, 10)}
    assert named(found, "changed")[0][:2] == (20, 20)


def stamp(side: RigCluster, topic: str) -> None:
    """From now on the brokers set the times of `topic`."""
    change = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    for done in side.admin.incremental_alter_configs([resource]).values():
        done.result(20)


# ── what the connector does not tell apart ────────────────────────────────────────────────────────────────────────


def odd_record(header: bytes, time_ms: int) -> bytearray:
    """One record with one header of that name, which need not be text, at that time."""
    name = zigzag(len(header)) + header + zigzag(1) + b"v"
    body = b"\0" + zigzag(0) + zigzag(0) + zigzag(-1) + zigzag(1) + b"v" + zigzag(1) + name
    return seal(zigzag(len(body)) + body, 0, 0, 1, time_ms, (-1, -1, -1))


@BOTH
def test_header_keys_that_are_not_utf8_and_times_before_1582_are_compared(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """Decoded, both keys are the same replacement character; in Spark's calendar ten days do not exist."""
    header, times, same = rig.create(topic_name, 3, retention_ms="-1")
    old = -12_219_292_800_000  # 1582-10-15
    for at, ours, theirs in (
        (header, odd_record(b"\xff", 5), odd_record(b"\xfe", 5)),
        (times, odd_record(b"h", old - 20 * 86_400_000), odd_record(b"h", old - 30 * 86_400_000)),
        (same, odd_record(b"\xff", old - 20 * 86_400_000), odd_record(b"\xff", old - 20 * 86_400_000)),
    ):
        append(rig.source, at, [ours])
        append(rig.destination, at, [theirs])
    found = validated(spark, validation_job(rig, [header, times, same], level))["partitions"]
    assert [each["verdict"] for each in found] == ["DIFFERENT", "DIFFERENT", "EQUAL"]
    assert [kinds(each) for each in found] == [{"changed": 1}, {"changed": 1}, {}]


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────────────────────


def damage(side: RigCluster, at: TopicPartition, marker: bytes) -> None:
    """One byte of the stored log is another one, as a bad disk leaves it."""
    [log] = side.cluster.directory.glob(f"**/{at}/00000000000000000000.log")
    with log.open("r+b") as file:
        place = file.read().index(marker)
        file.seek(place)
        file.write(bytes([marker[0] ^ 1]))


def test_a_damaged_batch_hides_no_other_partition(spark: SparkSession, rig: Rig, topic_name: str) -> None:
    """At level `records` it once ended the job without a result."""
    ours, theirs, other, _ = at = rig.create(topic_name, 4)
    for each in at:
        made = written(rig.source, each)
        append(rig.destination, each, [flipped(batch) for batch in made] if each == other else made)
    damage(rig.source, ours, b"2-3")
    damage(rig.destination, theirs, b"3-4")
    result = validated(spark, validation_job(rig, at, Level.RECORDS))
    found = result["partitions"]
    assert result["verdict"] == "DIFFERENT"
    assert [each["verdict"] for each in found] == ["UNKNOWN", "UNKNOWN", "DIFFERENT", "EQUAL"]
    assert "source: CORRUPT_BATCH: the batch at offset 20 is damaged" in found[0]["reason"]
    assert "copy: CORRUPT_BATCH: the batch at offset 30 is damaged" in found[1]["reason"]
    assert kinds(found[2]) == {"changed": 5}
    assert found[3]["source"]["records"] == 50


def delete(side: RigCluster, topic: str) -> None:
    for done in side.admin.delete_topics([topic]).values():
        done.result(20)

    def gone() -> bool:
        return topic not in side.admin.list_topics(timeout=10).topics

    until(gone, 20)


def delete_and_create(side: RigCluster, topic: str) -> None:
    delete(side, topic)

    def again() -> bool:
        """A name is free a little after its topic is gone."""
        try:
            return bool(side.create(topic))
        except KafkaException:
            return False

    until(again, 20)


@BOTH
@pytest.mark.parametrize(
    ("happens", "why"),
    [(delete, "was deleted while it was read"), (delete_and_create, "was deleted and created again while it was read")],
)
def test_a_topic_that_is_deleted_meanwhile_hides_no_other(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level, happens: Callable[[RigCluster, str], None], why: str
) -> None:
    """It is named, and not waited for; its name may lead to another topic by now, even one with the same records."""
    [same], [other], [lost], [copy] = (rig.create(f"{topic_name}-{name}") for name in ("same", "other", "lost", "copy"))
    made = {each: written(rig.source, each) for each in (same, other, lost, copy)}
    for each, batches in made.items():
        append(rig.destination, each, [flipped(batch) for batch in batches] if each == other else batches)

    def report(stage: str) -> None:
        if stage.startswith(level.value):
            for side, at in ((rig.source, lost), (rig.destination, copy)):
                happens(side, at.topic)
                if happens is delete_and_create:
                    append(side, at, made[at])

    result: dict[str, Any] = validate(spark, validation_job(rig, [same, other, lost, copy], level), report)
    found = result["partitions"]
    assert [each["verdict"] for each in found] == ["EQUAL", "DIFFERENT", "UNKNOWN", "UNKNOWN"], result
    assert f"source: TOPIC_REPLACED: topic {lost.topic!r} {why}" in found[2]["reason"]
    assert f"copy: TOPIC_REPLACED: topic {copy.topic!r} {why}" in found[3]["reason"]


@BOTH
def test_what_is_written_or_deleted_while_it_is_read_makes_no_difference(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """Retention on either cluster behind the bounds is UNKNOWN, records beyond the bounds are nobody's concern."""
    source, copy, both, grown = at = rig.create(topic_name, 4)
    for each in at:
        append(rig.destination, each, written(rig.source, each))

    def report(stage: str) -> None:
        if not stage.startswith(level.value):
            return
        for cluster, deleted in ((rig.source, (source, both)), (rig.destination, (copy, both))):
            for each in deleted:
                cluster.delete_before(each, 30)
            append(cluster, grown, [ten(50, time.time_ns() // 1_000_000)])

    found = validate(spark, validation_job(rig, at, level), report)["partitions"]
    assert [each["verdict"] for each in found] == ["UNKNOWN"] * 3 + ["EQUAL"], found
    for each, who in zip(found, ("source: ", "copy: ", "source: "), strict=False):
        assert each["reason"].startswith(f"{who}OFFSET_OUT_OF_RANGE"), each
