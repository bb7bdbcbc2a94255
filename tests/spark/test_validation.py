"""What is the same is told to be, and what is not is named: on real logs, by both ways of reading them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.endpoint import Address
from tanist.domain.names import TopicPartition
from tanist.domain.states import MirrorState
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import Level, PartitionRequest
from tanist.domain.validation.result import ValidatedPartition, ValidationVerdict
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.batch import header_of
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.raw import surplus
from tests.ports import over
from tests.spark.asking import kinds, named, validated, validation_job
from tests.spark.forging import append, flipped, without, written
from tests.unit.kafka.protocol.batches import GZIP, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import Rig

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]
BOTH = pytest.mark.parametrize("level", [Level.BATCHES, Level.RECORDS])


@BOTH
def test_a_copy_of_everything_is_equal(spark: SparkSession, rig: Rig, topic_name: str, level: Level) -> None:
    """Codecs, transactions kept and aborted, a log that begins late, an empty partition, headers, tombstones."""
    plain, late, empty, packed = rig.create(topic_name, 4)
    rig.source.produce(plain, [b"a", None, b""])
    rig.source.transaction(plain, [b"kept"])
    rig.source.transaction(plain, [b"aborted"] * 3, commit=False)
    rig.source.produce(plain, [b"last"])
    rig.source.produce(late, [b"%d" % n for n in range(50)])
    rig.source.delete_before(late, 50)
    rig.source.produce(late, [b"%d" % n for n in range(50)])
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        rig.source.produce(packed, [codec.encode() * 50] * 20, compression_type=codec)
    rig.source.transaction(packed, [b"ends with a marker"])
    with rig.copier([plain, late, empty, packed]) as copier:
        rig.copied(copier)
    result = validated(spark, validation_job(rig, [plain, late, empty, packed], level))
    assert result["verdict"] == "EQUAL", result
    assert [each["source"]["records"] for each in result["partitions"]] == [5, 50, 0, 81]
    assert [each["destination"]["records"] for each in result["partitions"]] == [5, 50, 0, 81]
    assert result["partitions"][0]["source"]["unseen"] == 5  # three aborted, two markers
    assert result["partitions"][1]["source"]["from"] == 50


@BOTH
def test_whatever_differs_is_named_by_its_offset(spark: SparkSession, rig: Rig, topic_name: str, level: Level) -> None:
    """One byte with the checksum made right again, one batch missing, one repeated, a foreign one, one record missing.

    What comes after a missing or repeated batch has moved; it is not told to be missing.
    """
    byte, missing, repeated, record, same = rig.create(topic_name, 5)
    made = {at: written(rig.source, at) for at in (byte, missing, repeated, same)}
    made[record] = written(rig.source, record, attributes=GZIP)
    copies = {at: list(found) for at, found in made.items()}
    copies[byte][2] = flipped(made[byte][2])
    del copies[missing][2]
    copies[repeated].insert(2, made[repeated][1])
    copies[repeated].append(encode_batch([b"nobody knows"], timestamp_ms=time.time_ns() // 1_000_000))
    copies[record][3] = without(4, header_of(memoryview(made[record][3])).base_timestamp)
    for at, batches in copies.items():
        append(rig.destination, at, batches)
    result = validated(spark, validation_job(rig, made, level))
    assert result["verdict"] == "DIFFERENT"
    found = {each["partition"]: each for each in result["partitions"]}
    of_batch = 1 if level is Level.BATCHES else 10
    assert [found[n]["verdict"] for n in range(5)] == ["DIFFERENT"] * 4 + ["EQUAL"]
    assert kinds(found[0]) == {"changed": 1}
    assert kinds(found[1]) == {"missing": of_batch, "moved": 2 * of_batch}
    assert kinds(found[2]) == {"repeated": of_batch, "moved": 3 * of_batch, "extra": 1}
    if level is Level.BATCHES:
        assert named(found[0], "changed") == [(20, 20, "changed: source record 29")]
        assert named(found[1], "missing") == [(20, None, "")]
        assert named(found[2], "repeated") == [(None, 20, "")]
        assert kinds(found[3]) == {"changed": 1, "moved": 1}
        assert named(found[3], "changed") == [(30, 30, "missing: source record 34")]
    else:
        assert named(found[0], "changed") == [(29, 29, "")]
        assert named(found[1], "missing") == [(n, None, "") for n in range(20, 30)]
        assert named(found[2], "repeated") == [(None, n, "") for n in range(20, 30)]
    assert named(found[2], "extra") == [(None, 60, "")]


@pytest.mark.parametrize("level", Level)
def test_records_deleted_from_the_start_of_a_mirror_partition_are_missing(
    spark: SparkSession, rig: Rig, topic_name: str, level: Level
) -> None:
    """DeleteRecords or retention at the destination alone: counted and named, also where a batch is cut in two.

    The brokers send such a batch whole; readers get the rest of it.
    """
    between, inside, retained = rig.create(topic_name, 3)
    for at in (between, inside, retained):
        append(rig.destination, at, written(rig.source, at))
    rig.destination.delete_before(between, 30)
    rig.destination.delete_before(inside, 34)
    for side in (rig.source, rig.destination):
        side.delete_before(retained, 17)
    result = validated(spark, validation_job(rig, [between, inside, retained], level))
    first, second, third = result["partitions"]
    assert [each["verdict"] for each in (first, second, third)] == ["DIFFERENT", "DIFFERENT", "EQUAL"]
    assert "the first 30 offsets of the source are missing at the destination" in first["reason"]
    assert [each["missing_at_start"] for each in (first, second, third)] == [30, 34, 0]
    assert [each["headless"] for each in (first, second, third)] == [30, 34, 0]
    if level is Level.RANGES:
        assert [(each["source"], each["offsets"]) for each in second["differences"]] == [(0, 34)]
        assert (kinds(first), kinds(second)) == ({"missing": 30}, {"missing": 34})
        return
    assert [(each["source"]["records"], each["destination"]["records"]) for each in (first, second, third)] == [
        (50, 20),
        (50, 16),
        (33, 33),
    ]
    if level is Level.BATCHES:
        assert (kinds(first), kinds(second)) == ({"missing": 3}, {"missing": 4})
        assert named(second, "missing") == [(n, None, "") for n in (0, 10, 20, 30)]
        assert [each["records"]["source"] for each in second["differences"]] == [10, 10, 10, 4]
    else:
        assert (kinds(first), kinds(second)) == ({"missing": 30}, {"missing": 34})
        assert named(second, "missing") == [(n, None, "") for n in range(10)]


def test_retention_of_the_source_while_a_validation_begins_is_no_difference(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy's log start follows the source's: it is held against the one that the source has by then."""
    from tanist.spark import ends  # noqa: PLC0415

    [at] = rig.create(topic_name)
    append(rig.destination, at, written(rig.source, at))
    settled = ends._settled

    def both_move(*given: Any) -> Any:
        for side in (rig.source, rig.destination):
            side.delete_before(at, 20)
        return settled(*given)

    monkeypatch.setattr(ends, "_settled", both_move)
    found = ends.fix(validation_job(rig, [at], Level.RANGES))[at]
    assert isinstance(found, ComparisonBounds)
    assert found.missing_at_start == 0
    assert [(each.start, each.until) for each in found.compared] == [(20, 50), (20, 50)]


def test_what_cannot_be_vouched_for_is_no_green(spark: SparkSession, rig: Rig, topic_name: str) -> None:
    """A copy that is behind, not ready, behind a shift that is on record, promoted; a partition that has none."""
    behind, preparing, shifted, promoted, empty, uncounted = rig.create(topic_name, 6)
    append(rig.destination, behind, written(rig.source, behind)[:3])
    rig.source.produce(shifted, [b"before"])
    rig.source.produce(promoted, [b"ours"] * 5)
    with rig.copier([shifted, promoted]) as copier:
        rig.copied(copier)
        surplus(rig, shifted)
        rig.source.produce(shifted, [b"after the shift"])
        rig.copied(copier)
    rig.source.produce(promoted, [b"never copied"])
    rig.destination.produce(promoted, [b"of the new life"] * 9)
    more = TopicPartition(topic_name, 6)
    with over(KafkaTopics, rig.source.cluster.endpoint()) as topics:
        assert topics.grow(topic_name, 7, SystemClock().deadline(20)) is None
    job = validation_job(rig, [behind, preparing, shifted, promoted, empty, uncounted, more], Level.BATCHES)
    odd: dict[TopicPartition, dict[str, Any]] = {
        preparing: {"state": MirrorState.PREPARING, "note": "row 100"},
        promoted: {"state": MirrorState.STOPPED, "promoted": True},
        uncounted: {"unknown_growth": "the source does not report its number of partitions"},
        more: {"state": MirrorState.UNKNOWN, "note": "the source has more partitions"},
    }
    parts = tuple(replace(each, **odd.get(each.partition, {})) for each in job.partitions)
    result = validated(spark, replace(job, partitions=parts))
    found = [(each["verdict"], each["mode"], each["reason"]) for each in result["partitions"]]
    assert found[0] == ("UNKNOWN", "identical", "20 offsets of the source are not copied yet")
    assert found[1] == ("UNKNOWN", "identical", "PREPARING: row 100")
    assert found[2] == ("EQUAL", "mapped", "")
    assert found[3] == ("DIFFERENT", "identical", "1 missing")
    assert found[4] == ("EQUAL", "identical", "")
    assert found[5] == ("UNKNOWN", "identical", "the source does not report its number of partitions")
    assert found[6][0] == "UNKNOWN"
    assert found[6][2].startswith("UNKNOWN: the source has more partitions; ")


def test_a_cluster_that_does_not_answer_makes_nothing_green(rig: Rig, topic_name: str, spark: SparkSession) -> None:
    """The reason is with every partition; at the level of offsets a copy is compared without any record."""
    [at] = rig.create(topic_name)
    append(rig.destination, at, written(rig.source, at))
    offsets = validated(spark, validation_job(rig, [at], Level.RANGES))
    assert (offsets["verdict"], offsets["bytes"]) == ("EQUAL", 0)
    dead = replace(rig.source.cluster.endpoint(), bootstrap=(Address("127.0.0.1", 1),))
    for level in (Level.RANGES, Level.BATCHES):
        result = validated(spark, validation_job(rig, [at], level, source=dead))
        assert result["verdict"] == "UNKNOWN"
        assert "UNREACHABLE" in result["partitions"][0]["reason"]


def test_an_expectation_that_cannot_be_evaluated_is_no_green() -> None:
    """Nor is a table that lacks a partition."""
    from tanist.spark.expectations import decide, evaluate, row  # noqa: PLC0415

    equal = ValidatedPartition(request=PartitionRequest(partition=TopicPartition("t", 0)))
    whole = row(equal)
    assert decide(evaluate([whole], 1), [equal]) is ValidationVerdict.EQUAL
    assert decide(evaluate([whole], 2), [equal]) is ValidationVerdict.UNKNOWN
    assert decide(evaluate([whole | {"missing": 1}], 1), [equal]) is ValidationVerdict.DIFFERENT
    del whole["lost"]
    met = evaluate([whole], 1)
    assert [each.about for each in met if each.met is None] == ["lost"]
    assert decide(met, [equal]) is ValidationVerdict.UNKNOWN
