"""One byte, one record too few, one too many, among five million."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.validation.job import Level
from tests.spark.asking import kinds, named, validated, validation_job
from tests.spark.forging import append, flipped, many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import Rig

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]
PARTITIONS: Final = 8
BATCHES: Final = 125
RECORDS: Final = 5_000
"""In a batch."""


@pytest.mark.parametrize("level", [Level.BATCHES, Level.RECORDS])
def test_one_of_five_million_is_found(spark: SparkSession, rig: Rig, topic_name: str, level: Level) -> None:
    """By both ways of reading, with its offset, and nothing else."""
    at = rig.create(topic_name, PARTITIONS)
    now = time.time_ns() // 1_000_000
    times, whole = range(now, now + BATCHES), range(RECORDS)
    odd = {
        at[0]: lambda when: flipped(next(many(whole, [when]))),
        at[1]: lambda when: next(many([n for n in whole if n != 1234], [when])),
        at[2]: lambda when: next(many([*whole[:1235], *whole[1234:]], [when])),
    }
    for each in at:
        append(rig.source, each, many(whole, times))
        forge = odd.get(each)
        copies = enumerate(many(whole, times))
        append(rig.destination, each, (forge(now + n) if forge and n == 60 else batch for n, batch in copies))
    first = 60 * RECORDS
    result = validated(spark, validation_job(rig, at, level))
    found = result["partitions"]
    behind = int(level is Level.RECORDS)  # the copy that lacks a record ends one before its source
    assert result["records"] == PARTITIONS * BATCHES * RECORDS - behind
    assert [each["verdict"] for each in found] == ["DIFFERENT"] * 3 + ["EQUAL"] * 5
    moved = (BATCHES - 60) * RECORDS - 1235
    if level is Level.BATCHES:
        assert [kinds(each) for each in found[:2]] == [{"changed": 1}, {"changed": 1, "moved": BATCHES - 61}]
        assert [named(each, "changed") for each in found[:2]] == [
            [(first, first, f"changed: source record {first + 4999}")],
            [(first, first, f"missing: source record {first + 1234}")],
        ]
    else:
        assert kinds(found[0]) == {"changed": 1}
        assert kinds(found[1]) == {"missing": 1, "moved": moved}
        assert named(found[0], "changed") == [(first + 4999, first + 4999, "")]
        assert named(found[1], "missing") == [(first + 1234, None, "")]
    # One batch of this copy spans two of the source, so it is compared record by record at either level.
    assert kinds(found[2]) == {"repeated": 1, "moved": moved}
    assert named(found[2], "repeated") == [(None, first + 1235, "")]
