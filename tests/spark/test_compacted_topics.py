"""Compacted topics are validated while the cleaners of both brokers are at work."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.compaction import Holes
from tanist.domain.validation.job import Level
from tests.kafka.fetcher.rig import until
from tests.kafka.fetcher.test_compacted import CODECS, Writer, cleaned, cleaned_source, create, has_holes, traffic
from tests.spark.asking import kinds, named, validated, validation_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig

__all__ = ["cleaned"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # pyspark leaves that of each `collect`
]


def asked(spark: SparkSession, rig: Rig, at: Sequence[MirrorPartition], level: Level) -> list[dict[str, Any]]:
    """What is found of each partition."""
    job = validation_job(rig, at, level)
    job = replace(job, partitions=tuple(replace(each, compacted=True) for each in job.partitions))
    found = {each["partition"]: each for each in validated(spark, job)["partitions"]}
    return [found[each.partition] for each in at]


@pytest.mark.long
@pytest.mark.parametrize("level", [Level.BATCHES, Level.RECORDS])
def test_two_cleaners_at_work_make_no_difference_and_hide_none(
    cleaned: Rig, spark: SparkSession, topic_name: str, level: Level
) -> None:
    at = create(cleaned, topic_name, len(CODECS))
    writers = [Writer(cleaned.source, each, compression_type=codec) for each, codec in zip(at, CODECS, strict=True)]
    for writer in writers:
        writer.write(300)
    cleaned_source(cleaned, at)
    with cleaned.copier(at, holes=Holes.COPIES) as copier:
        cleaned.copied(copier)
        with traffic(cleaned, at):
            for found in asked(spark, cleaned, at, level):
                assert found["verdict"] in {"EQUAL", "UNKNOWN"}, found
        cleaned.copied(copier)
        until(partial(has_holes, cleaned.destination, at), 90)
        assert {found["verdict"] for found in asked(spark, cleaned, at, level)} == {"EQUAL"}
    producer, end = cleaned.destination.producer(), cleaned.destination.end(at[1])
    producer.produce(topic_name, b"of nobody", b"a key of nobody", partition=1)
    producer.flush(20)
    foreign = asked(spark, cleaned, at, level)
    assert [found["verdict"] for found in foreign] == ["EQUAL", "DIFFERENT", "EQUAL", "EQUAL", "EQUAL"]
    assert (kinds(foreign[1]), named(foreign[1], "extra")) == ({"extra": 1}, [(None, end, "")])
