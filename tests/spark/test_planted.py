"""Differences that were once taken for equality, and partitions that once hid all others: in one validation a level."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from tanist.domain.validation.job import Level
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.encoding import zigzag
from tanist.kafka.wire import requests
from tests.kafka.fetcher.rig import Rig, soon, until, value
from tests.spark.asking import kinds, named
from tests.spark.forging import append, flipped, written
from tests.spark.shared_look import Ground, Look, looked
from tests.unit.kafka.protocol.batches import encode_batch, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import RigCluster
    from tests.spark.shared_look import Case

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]
STAMPED = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
KEPT = {"retention.ms": "-1"}


@pytest.fixture(scope="module", params=[Level.BATCHES, pytest.param(Level.RECORDS, marks=pytest.mark.long)])
def look(request: pytest.FixtureRequest, spark: SparkSession, sides: tuple[RigCluster, RigCluster]) -> Look:
    """All of it, planted side by side and validated at once: what is wrong with one hides no other."""
    cases = (stamped_there, stamped_here, stamped_once, odd_keys_and_times, damaged)
    return looked(spark, Rig(*sides), request.param, (*cases, deleted, created_again, cut_and_grown))


def ten(base: int, timestamp_ms: int) -> bytearray:
    values = [b"%d-%d" % (base, each) for each in range(10)]
    return encode_batch(values, base_offset=base, timestamp_ms=timestamp_ms)


def in_units(level: Level, records: int) -> int:
    """Batches of ten, or records."""
    return records // 10 if level is Level.BATCHES else records


# ── times ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def stamped_there(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    rig.destination.create(ground.topic, config=STAMPED)
    [at] = rig.source.create(ground.topic, config=KEPT)
    append(rig.destination, at, written(rig.source, at))
    return [at]


def test_a_destination_that_stamps_its_own_times_is_not_equal(look: Look) -> None:
    """LogAppendTime there, CreateTime here: a consumer of the copy gets other times."""
    [found] = look.of(stamped_there)
    assert found["verdict"] == "DIFFERENT"
    assert kinds(found) == {"changed": in_units(look.level, 50)}


def stamped_here(ground: Ground) -> Sequence[MirrorPartition]:
    rig, both, ours = ground.rig, f"{ground.topic}-both", f"{ground.topic}-ours"
    for name, config in ((both, STAMPED), (ours, KEPT)):
        rig.destination.create(name, config=config)
    at = [rig.source.create(name, config=STAMPED)[0] for name in (both, ours)]
    for each in at:
        append(rig.destination, each, written(rig.source, each))
    return at


def test_a_source_that_stamps_its_own_times_excuses_the_copy(look: Look) -> None:
    """The copy holds the times that its producers have set, or that its own brokers have."""
    found = look.of(stamped_here)
    assert [each["verdict"] for each in found] == ["EQUAL"] * 2, found
    assert [kinds(each) for each in found] == [{}] * 2


def stamped_once(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    rig.destination.create(ground.topic, config=KEPT)
    [at] = rig.source.create(ground.topic, config=KEPT)
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
    return [at]


def test_one_stamped_record_excuses_no_other(look: Look) -> None:
    """Once it switched the comparison of times off for the ten thousand offsets around it."""
    [found] = look.of(stamped_once)
    assert found["verdict"] == "DIFFERENT"
    assert kinds(found) == {"changed": in_units(look.level, 10)}
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


def odd_keys_and_times(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    header, times, same = rig.create(ground.topic, 3, retention_ms="-1")
    old = -12_219_292_800_000  # 1582-10-15
    for at, ours, theirs in (
        (header, odd_record(b"\xff", 5), odd_record(b"\xfe", 5)),
        (times, odd_record(b"h", old - 20 * 86_400_000), odd_record(b"h", old - 30 * 86_400_000)),
        (same, odd_record(b"\xff", old - 20 * 86_400_000), odd_record(b"\xff", old - 20 * 86_400_000)),
    ):
        append(rig.source, at, [ours])
        append(rig.destination, at, [theirs])
    return [header, times, same]


def test_header_keys_that_are_not_utf8_and_times_before_1582_are_compared(look: Look) -> None:
    """Decoded, both keys are the same replacement character; in Spark's calendar ten days do not exist."""
    found = look.of(odd_keys_and_times)
    assert [each["verdict"] for each in found] == ["DIFFERENT", "DIFFERENT", "EQUAL"]
    assert [kinds(each) for each in found] == [{"changed": 1}, {"changed": 1}, {}]


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────────────────────


def damage(side: RigCluster, at: MirrorPartition, marker: bytes) -> None:
    """One byte of the stored log is another one, as a bad disk leaves it."""
    [log] = side.cluster.directory.glob(f"**/{at}/00000000000000000000.log")
    with log.open("r+b") as file:
        place = file.read().index(marker)
        file.seek(place)
        file.write(bytes([marker[0] ^ 1]))


def damaged(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    ours, theirs, other, _ = at = rig.create(ground.topic, 4)
    for each in at:
        made = written(rig.source, each)
        append(rig.destination, each, [flipped(batch) for batch in made] if each == other else made)
    damage(rig.source, ours, b"2-3")
    damage(rig.destination, theirs, b"3-4")
    return at


def test_a_damaged_batch_hides_no_other_partition(look: Look) -> None:
    """At level `records`, which cannot look into it, it once ended the job without a result."""
    found = look.of(damaged)
    assert kinds(found[2]) == {"changed": 5}, "one of each batch"
    assert found[3]["source"]["records"] == 50
    assert [each["verdict"] for each in found[2:]] == ["DIFFERENT", "EQUAL"]
    if look.level is Level.BATCHES:
        assert [each["verdict"] for each in found[:2]] == ["DIFFERENT", "DIFFERENT"]
        return
    assert [each["verdict"] for each in found[:2]] == ["UNKNOWN", "UNKNOWN"]
    assert "source: CORRUPT_BATCH: the batch at offset 20 is damaged" in found[0]["reason"]
    assert "copy: CORRUPT_BATCH: the batch at offset 30 is damaged" in found[1]["reason"]


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


def gone(ground: Ground, happens: Callable[[RigCluster, str], None]) -> Sequence[MirrorPartition]:
    """Two topics that stay, and one on each side to which it `happens`."""
    rig = ground.rig
    at = [rig.create(f"{ground.topic}-{name}")[0] for name in ("same", "other", "lost", "copy")]
    made = {each: written(rig.source, each) for each in at}
    for each, batches in made.items():
        append(rig.destination, each, [flipped(batch) for batch in batches] if each == at[1] else batches)

    def meanwhile() -> None:
        for side, each in ((rig.source, at[2]), (rig.destination, at[3])):
            happens(side, each.topic)
            if happens is delete_and_create:
                append(side, each, made[each])

    ground.meanwhile.append(meanwhile)
    return at


def deleted(ground: Ground) -> Sequence[MirrorPartition]:
    return gone(ground, delete)


def created_again(ground: Ground) -> Sequence[MirrorPartition]:
    return gone(ground, delete_and_create)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (deleted, "was deleted while it was read"),
        (created_again, "was deleted and created again while it was read"),
    ],
)
def test_a_topic_that_is_deleted_meanwhile_hides_no_other(look: Look, case: Case, why: str) -> None:
    """It is named, and not waited for; its name may lead to another topic by now, even one with the same records."""
    found = look.of(case)
    assert [each["verdict"] for each in found] == ["EQUAL", "DIFFERENT", "UNKNOWN", "UNKNOWN"], found
    assert f"source: TOPIC_REPLACED: topic {found[2]['topic']!r} {why}" in found[2]["reason"]
    assert f"copy: TOPIC_REPLACED: topic {found[3]['topic']!r} {why}" in found[3]["reason"]


def cut_and_grown(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    source, copy, both, grown = at = rig.create(ground.topic, 4)
    for each in at:
        append(rig.destination, each, written(rig.source, each))

    def meanwhile() -> None:
        for cluster, cut in ((rig.source, (source, both)), (rig.destination, (copy, both))):
            for each in cut:
                cluster.delete_before(each, 30)
            append(cluster, grown, [ten(50, time.time_ns() // 1_000_000)])

    ground.meanwhile.append(meanwhile)
    return at


def test_what_is_written_or_deleted_while_it_is_read_makes_no_difference(look: Look) -> None:
    """Retention on either cluster behind the bounds is UNKNOWN, records beyond the bounds are nobody's concern."""
    found = look.of(cut_and_grown)
    assert [each["verdict"] for each in found] == ["UNKNOWN"] * 3 + ["EQUAL"], found
    for each, who in zip(found, ("source: ", "copy: ", "source: "), strict=False):
        assert each["reason"].startswith(f"{who}OFFSET_OUT_OF_RANGE"), each
