"""A copy with offsets of its own: equal where its committed records are, whatever aborted attempts have left there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tanist.domain.fake_group import group_of
from tanist.domain.mapped_runs import extended, first_runs, moved
from tanist.domain.names import DestinationOffset, ProducerId, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.transactional_append import TxnEvent
from tanist.domain.validation.job import Level, PartitionRequest, ValidationJob
from tanist.kafka.protocol.batch import header_of
from tanist.kafka.wire.copy_transactions import CopiedBatch, CopyTransactions
from tests.kafka.fetcher.rig import soon
from tests.kafka.wire.outcome import outcome
from tests.spark.asking import kinds, validated, validation_job
from tests.spark.forging import append, written
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig

pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


class Copy:
    """Batches of the source, appended in transactions; `runs`: where they are."""

    def __init__(self, rig: Rig, at: MirrorPartition) -> None:
        self.rig, self.at = rig, at
        rig.destination.router.refresh([at.topic], soon())
        self.owned = CopyTransactions(rig.destination.router, f"{at.topic}-txn", group_of(rig.spec.mirror), 10_000)
        assert self.owned.take_over(soon()) is TxnEvent.DONE
        self.runs, self.until = first_runs(SourceOffset(0), DestinationOffset(0)), 0

    def transaction(self, batches: Sequence[bytearray], *, commit: bool = True, counts: bool = True) -> None:
        """One of `batches`, which is aborted, or moves the map; or does not count, as its worker died."""
        end, places = self.rig.destination.end(self.at), list[tuple[OffsetRange, int]]()
        for each in batches:
            header = header_of(memoryview(each))
            place = OffsetRange(SourceOffset(header.base_offset), DestinationOffset(end))
            places.append((place, header.record_count))
            end += header.record_count
        records = [header_of(memoryview(each)).record_count for each in batches]
        sent = [CopiedBatch(self.at, memoryview(bytearray(each)), n) for each, n in zip(batches, records, strict=True)]
        assert outcome(self.owned.append(sent, soon())) is TxnEvent.DONE, self.owned.error
        assert self.owned.end(soon(), commit=commit) is TxnEvent.DONE, self.owned.error
        self.rig.destination.settle([self.at])
        if commit and counts:
            self.until = header_of(memoryview(batches[-1])).next_offset
            next_one = OffsetRange(SourceOffset(self.until), DestinationOffset(end + 1))
            for place, count in places:
                self.runs = extended(self.runs, place, count)
            self.runs = moved(self.runs, next_one)
        assert self.owned.next_epoch(soon()) is TxnEvent.DONE, self.owned.error

    def asked(self) -> PartitionRequest:
        """As a validation prepares it."""
        return PartitionRequest(partition=self.at, runs=self.runs, until=self.until, source_end=self.until)


def copied(rig: Rig, at: MirrorPartition, *, lacking: int | None = None, foreign: bytes = b"") -> PartitionRequest:
    """The first 40 of 50 records, in three transactions and two that were aborted; without one batch of them.

    `foreign`: what somebody else has written between them.
    """
    made = written(rig.source, at)
    copy = Copy(rig, at)
    copy.transaction(made[:2], commit=False)
    for some in ((0, 1), (2,), (3,)):
        if foreign and some == (2,):
            append(rig.destination, at, [encode_batch([foreign] * 10)])
        if kept := [made[n] for n in some if n != lacking]:
            copy.transaction(kept)
    copy.transaction(made[4:], commit=False)
    return copy.asked()


def mapped_job(rig: Rig, *asked: PartitionRequest) -> ValidationJob:
    return replace(validation_job(rig, (), Level.RECORDS), data_id=ProducerId(-1), partitions=asked)


def test_committed_records_are_compared_where_the_map_says_and_nothing_else_is(
    spark: SparkSession, rig: Rig, topic_name: str
) -> None:
    """Markers, aborted attempts and what came later are no differences; a lost record is, and one of somebody else."""
    equal, lacks, extra = rig.create(topic_name, 3)
    asked = (copied(rig, equal), copied(rig, lacks, lacking=1), copied(rig, extra, foreign=b"from elsewhere"))
    job = mapped_job(rig, *asked)
    found = {each["partition"]: each for each in validated(spark, job)["partitions"]}
    assert found[0]["verdict"] == "EQUAL", found[0]
    assert (found[0]["source"]["records"], found[0]["destination"]["records"]) == (40, 40)
    assert kinds(found[1]) == {"missing": 10}, found[1]
    assert kinds(found[2]) == {"extra": 10}, found[2]


def test_a_copy_that_was_failed_over_is_compared_up_to_its_last_copied_record(
    spark: SparkSession, rig: Rig, topic_name: str
) -> None:
    """Behind it the new primary writes, and no producer id tells its records from those of the mirror."""
    (at,) = rig.create(topic_name)
    asked = replace(copied(rig, at), promoted=True)
    append(rig.destination, at, [encode_batch([b"of the new primary"] * 10)])
    job = mapped_job(rig, asked)
    (found,) = validated(spark, job)["partitions"]
    assert (kinds(found), found["destination"]["records"], found["lost"]) == ({}, 40, 0), found


def test_repeats_are_counted_and_named_where_the_mirror_delivers_at_least_once(
    spark: SparkSession, rig: Rig, topic_name: str
) -> None:
    """They are no corruption; a lost record is. Of a mirror that delivers exactly once they are differences."""
    at = rig.create(topic_name, 3)
    asked = [repeated(rig, at[0], may_repeat=True), repeated(rig, at[1], may_repeat=False)]
    asked.append(repeated(rig, at[2], may_repeat=True, lacking=3))
    result = validated(spark, mapped_job(rig, *asked))
    found = [(each["verdict"], kinds(each)) for each in result["partitions"]]
    assert found == [
        ("EQUAL", {"repeated": 20}),
        ("DIFFERENT", {"repeated": 20}),
        ("DIFFERENT", {"repeated": 20, "missing": 10}),
    ]
    assert "20 records are there again" in result["partitions"][0]["reason"]


@pytest.mark.parametrize(
    ("differ", "looked_at"), [([0], [0, 1, 2]), ([3, 4, 9], [3, 4, 5, 6, 7, 9, 10, 11]), ([1, 3], [1, 2, 3, 4, 5])]
)
def test_repeats_are_looked_for_behind_where_they_are(differ: list[int], looked_at: list[int]) -> None:
    """Records were extra whose last copies lay in a range of offsets that does not differ."""
    from tanist.spark.recordwise import with_following  # noqa: PLC0415  # only tests of Spark pay for it

    assert with_following(np.array(differ, np.int64)).tolist() == looked_at


def repeated(rig: Rig, at: MirrorPartition, *, may_repeat: bool, lacking: int | None = None) -> PartitionRequest:
    """All 50 records, 20 of them twice, without one batch."""
    made = written(rig.source, at)
    copy = Copy(rig, at)
    copy.transaction(made[:1])
    copy.transaction(made[1:3], counts=False)
    copy.transaction([made[n] for n in (1, 2, 3, 4) if n != lacking])
    return replace(copy.asked(), may_repeat=may_repeat)
