"""What is the same is told to be, and what is not is named: on real logs, in one validation at each level."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.endpoint import Address
from tanist.domain.names import MirrorPartition
from tanist.domain.states import MirrorState
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import Level, PartitionRequest
from tanist.domain.validation.result import ValidatedPartition, ValidationVerdict
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.batch import header_of
from tanist.kafka.protocol.merging import walk_merged
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.raw import surplus
from tests.kafka.fetcher.rig import Rig
from tests.ports import over
from tests.spark.asking import kinds, named, validated, validation_job
from tests.spark.forging import append, flipped, without, written
from tests.spark.shared_look import Ground, Look, looked
from tests.unit.kafka.protocol.batches import GZIP, encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import RigCluster

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]


@pytest.fixture(scope="module", params=[Level.BATCHES, Level.RECORDS])
def look(request: pytest.FixtureRequest, spark: SparkSession, sides: tuple[RigCluster, RigCluster]) -> Look:
    """All that differs, and what nobody can vouch for, planted side by side and validated at once."""
    return looked(spark, Rig(*sides), request.param, (different, cut_at_start, doubtful, small))


@pytest.mark.parametrize("level", [Level.BATCHES, Level.RECORDS])
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


def different(ground: Ground) -> Sequence[MirrorPartition]:
    """One byte with the checksum made right again, a batch missing, one repeated, a foreign one, a record missing."""
    rig = ground.rig
    byte, missing, repeated, record, same = at = rig.create(ground.topic, 5)
    made = {each: written(rig.source, each) for each in (byte, missing, repeated, same)}
    made[record] = written(rig.source, record, attributes=GZIP)
    copies = {each: list(batches) for each, batches in made.items()}
    copies[byte][2] = flipped(made[byte][2])
    del copies[missing][2]
    copies[repeated].insert(2, made[repeated][1])
    copies[repeated].append(encode_batch([b"nobody knows"], timestamp_ms=time.time_ns() // 1_000_000))
    copies[record][3] = without(4, header_of(memoryview(made[record][3])).base_timestamp)
    for each, batches in copies.items():
        append(rig.destination, each, batches)
    return at


def test_whatever_differs_is_named_by_its_offset(look: Look) -> None:
    """What comes after a missing or repeated batch has moved; it is not told to be missing."""
    found = look.of(different)
    assert look.result["verdict"] == "DIFFERENT"
    of_batch = 1 if look.level is Level.BATCHES else 10
    assert [each["verdict"] for each in found] == ["DIFFERENT"] * 4 + ["EQUAL"]
    assert kinds(found[0]) == {"changed": 1}
    assert kinds(found[1]) == {"missing": of_batch, "moved": 2 * of_batch}
    assert kinds(found[2]) == {"repeated": of_batch, "moved": 3 * of_batch, "extra": 1}
    if look.level is Level.BATCHES:
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


def small(ground: Ground) -> Sequence[MirrorPartition]:
    """Batches of one record, which the fetcher has merged; a byte of a merged batch changed, and a record left out."""
    rig = ground.rig
    same, plain, byte, missing = at = rig.create(ground.topic, 4)
    rig.source.produce(same, [b"%d" % n for n in range(300)], linger_ms=0, batch_num_messages=1)
    rig.source.produce(plain, [b"%d" % n for n in range(300)], linger_ms=50)
    with rig.copier([same, plain]) as copier:
        rig.copied(copier)
    now = time.time_ns() // 1_000_000
    singles = [encode_batch([b"%d" % n], base_offset=n, timestamp_ms=now + n) for n in range(20)]
    for each in (byte, missing):
        append(rig.source, each, singles)
    append(rig.destination, byte, [flipped(_merged(singles))])
    append(rig.destination, missing, [_merged(singles[:10]), _merged(singles[11:])])
    return at


def _merged(batches: list[bytearray]) -> bytearray:
    [(_, one)] = walk_merged(memoryview(bytearray(b"".join(batches))), 0, 1 << 20)
    return bytearray(one)


def test_batches_that_the_fetcher_merged_are_no_difference(look: Look) -> None:
    """What differs within one is found all the same."""
    found = look.of(small)
    assert [each["verdict"] for each in found] == ["EQUAL", "EQUAL", "DIFFERENT", "DIFFERENT"]
    assert kinds(found[2]) == {"changed": 1}
    assert named(found[2], "changed") == [(19, 19, "")]
    assert kinds(found[3]) == {"missing": 1, "moved": 9}
    assert named(found[3], "missing") == [(10, None, "")]


def cut_at_start(ground: Ground) -> Sequence[MirrorPartition]:
    rig = ground.rig
    between, inside, retained = at = rig.create(ground.topic, 3)
    for each in at:
        append(rig.destination, each, written(rig.source, each))
    rig.destination.delete_before(between, 30)
    rig.destination.delete_before(inside, 34)
    for side in (rig.source, rig.destination):
        side.delete_before(retained, 17)
    return at


def test_records_deleted_from_the_start_of_a_mirror_partition_are_missing(look: Look) -> None:
    """DeleteRecords or retention at the destination alone: counted and named, also where a batch is cut in two.

    The brokers send such a batch whole; readers get the rest of it.
    """
    first, second, _ = found = look.of(cut_at_start)
    headless(found)
    assert [(each["source"]["records"], each["destination"]["records"]) for each in found] == [
        (50, 20),
        (50, 16),
        (33, 33),
    ]
    if look.level is Level.BATCHES:
        assert (kinds(first), kinds(second)) == ({"missing": 3}, {"missing": 4})
        assert named(second, "missing") == [(n, None, "") for n in (0, 10, 20, 30)]
        assert [each["records"]["source"] for each in second["differences"]] == [10, 10, 10, 4]
    else:
        assert (kinds(first), kinds(second)) == ({"missing": 30}, {"missing": 34})
        assert named(second, "missing") == [(n, None, "") for n in range(10)]


def test_offsets_alone_tell_what_is_missing_at_the_start(spark: SparkSession, rig: Rig) -> None:
    """The same at the level that reads no record."""
    first, second, _ = found = looked(spark, rig, Level.RANGES, (cut_at_start,)).of(cut_at_start)
    headless(found)
    assert [(each["source"], each["offsets"]) for each in second["differences"]] == [(0, 34)]
    assert (kinds(first), kinds(second)) == ({"missing": 30}, {"missing": 34})


def headless(found: Sequence[dict[str, Any]]) -> None:
    """What every level tells of `cut_at_start`."""
    assert [each["verdict"] for each in found] == ["DIFFERENT", "DIFFERENT", "EQUAL"]
    assert "the first 30 offsets of the source are missing at the destination" in found[0]["reason"]
    assert [each["missing_at_start"] for each in found] == [30, 34, 0]
    assert [each["headless"] for each in found] == [30, 34, 0]


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
    assert [(each.start, each.end) for each in found.compared] == [(20, 50), (20, 50)]


def doubtful(ground: Ground) -> Sequence[MirrorPartition]:
    """A copy that is behind, not ready, behind a shift that is on record, promoted; a partition that has none."""
    rig = ground.rig
    behind, preparing, shifted, promoted, empty, uncounted = rig.create(ground.topic, 6)
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
    more = MirrorPartition(ground.topic, 6)
    with over(KafkaTopics, rig.source.cluster.endpoint()) as topics:
        assert topics.grow(ground.topic, 7, SystemClock().deadline(20)) is None
    ground.odd[preparing] = {"state": MirrorState.PREPARING, "note": "row 100"}
    ground.odd[promoted] = {"state": MirrorState.STOPPED, "promoted": True}
    ground.odd[uncounted] = {"unknown_growth": "the source does not report its number of partitions"}
    ground.odd[more] = {"state": MirrorState.UNKNOWN, "note": "the source has more partitions"}
    return [behind, preparing, shifted, promoted, empty, uncounted, more]


def test_what_cannot_be_vouched_for_is_no_green(look: Look) -> None:
    found = [(each["verdict"], each["mode"], each["reason"]) for each in look.of(doubtful)]
    assert found[0] == ("UNKNOWN", "identical", "20 offsets of the source are not copied yet")
    assert found[1] == ("UNKNOWN", "identical", "PREPARING: row 100")
    assert found[2] == ("EQUAL", "mapped", "")
    assert found[3] == ("DIFFERENT", "identical", "1 missing")
    assert found[4] == ("EQUAL", "identical", "")
    assert found[5] == ("UNKNOWN", "identical", "the source does not report its number of partitions")
    assert found[6][0] == "UNKNOWN"
    assert found[6][2].startswith("UNKNOWN: the source has more partitions; ")


def test_a_record_that_a_promoted_topic_lacks_is_missing_and_not_changed(look: Look) -> None:
    """At its offset lies what a client has written since the promotion, which level `records` once took for a copy."""
    promoted = look.of(doubtful)[3]
    assert kinds(promoted) == {"missing": 1}
    assert named(promoted, "missing") == [(5, None, "")]
    assert promoted["destination"]["records"] == 5


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

    equal = ValidatedPartition(request=PartitionRequest(partition=MirrorPartition("t", 0)))
    whole = row(equal)
    assert decide(evaluate([whole], 1), [equal]) is ValidationVerdict.EQUAL
    assert decide(evaluate([whole], 2), [equal]) is ValidationVerdict.UNKNOWN
    assert decide(evaluate([whole | {"missing": 1}], 1), [equal]) is ValidationVerdict.DIFFERENT
    del whole["lost"]
    met = evaluate([whole], 1)
    assert [each.about for each in met if each.met is None] == ["lost"]
    assert decide(met, [equal]) is ValidationVerdict.UNKNOWN
