"""What a validation of a mirror is asked to compare: over clusters in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain import errors
from tanist.domain.copier import Copier
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, TopicPartition
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, OffsetRangeWritten, PromotionEpoch
from tanist.domain.states import MirrorState
from tanist.domain.validation.job import Level, PartitionRequest
from tanist.domain.validation.result import (
    Comparison,
    DifferenceKind,
    LogSummary,
    ValidatedPartition,
    ValidationVerdict,
)
from tanist.spark.spans import LogSpan, Spans
from tanist.usecases.mirror import spec_at
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tanist.usecases.validation.prepare import ValidationRequest, prepare
from tests.builders import DR, a_command, a_lineage
from tests.fakes.cluster import MemoryCluster
from tests.fakes.failover import GuardedCluster
from tests.unit.usecases.readings import clusters


class Pair:
    """East mirrored to west: orders, two partitions."""

    def __init__(self) -> None:
        self.east = MemoryCluster("east").with_topic("orders", 2, 10)
        self.west = MemoryCluster("west")
        create(CreateRequest(mirror="dr", include=("orders",)), self.east.side(), self.west.side(), a_command())

    def asked(self, level: Level | None = None) -> dict[TopicPartition, PartitionRequest]:
        spec = spec_at(self.west.side(), DR, a_command())
        prepared = prepare(clusters(spec, self.east, self.west), ValidationRequest(level=level), a_command())
        return {each.partition: each for each in prepared.partitions}


@pytest.mark.parametrize("level", Level)
def test_partitions_that_the_mirror_does_not_know_of_are_never_equal(level: Level) -> None:
    """However deep it looks: they are in the result, and what to do is said."""
    pair = Pair()
    assert set(pair.asked(level)) == {MirrorPartition("orders", n) for n in range(2)}
    pair.east.side().topics.grow("orders", 3, a_command().by)
    more = pair.asked(level)[MirrorPartition("orders", 2)]
    assert more.state is MirrorState.UNKNOWN
    found = ValidatedPartition(request=more)
    assert (found.verdict, found.reason) == (
        ValidationVerdict.UNKNOWN,
        "UNKNOWN: the source has more partitions than are mirrored: `tanist metadata sync dr`",
    )


def test_what_a_promoted_topic_left_behind_is_not_to_be_synced() -> None:
    """It has left the mirror: nothing would come of it."""
    pair = Pair()
    pair.west.write(STATE_TOPIC, PromotionEpoch(mirror=DR, topic="orders", count=1))
    pair.east.side().topics.grow("orders", 3, a_command().by)
    assert pair.asked()[MirrorPartition("orders", 2)].note == "the source has more partitions than took over"


def test_what_a_failover_has_reserved_is_asked_of_lineage() -> None:
    pair = Pair()
    promoted = PromotionEpoch(mirror=DR, topic="orders", count=1)
    entry = a_lineage(10, 8, old_cluster_id="id-east", new_cluster_id="id-west", reserve_ends=(10, 12))
    pair.west.write(STATE_TOPIC, promoted, entry)
    asked = pair.asked()
    found = {at.partition: (each.old_end, each.reserve_end) for at, each in asked.items()}
    assert found == {0: (None, None), 1: (8, 12)}
    pair.west.write(STATE_TOPIC, replace(promoted, count=2))
    assert {each.old_end for each in pair.asked().values()} == {None}, "of an earlier promotion"


def test_a_reversed_mirror_is_asked_for_its_history_and_not_for_what_only_the_old_source_has() -> None:
    """West was replaced by east and is copied to again: its tail lies in the reserve; below, others wrote."""
    pair = Pair()
    topic = pair.west.view(STATE_TOPIC).topic(DR, "orders")
    assert topic is not None
    entry = a_lineage(10, 8, old_cluster_id="id-west", new_cluster_id="id-east", reserve_ends=(15, 8))
    pair.west.write(STATE_TOPIC, replace(topic, copy_starts=(12, 8)), entry)
    asked = pair.asked()
    found = {at.partition: (each.copy_start, each.skipped, each.old_end) for at, each in asked.items()}
    assert found == {0: (12, ((10, 15),), None), 1: (8, (), None)}
    (why, *more) = ValidatedPartition(request=asked[MirrorPartition("orders", 0)]).explanations
    assert why.startswith("offsets 10 to 14 are not compared: promotion 1 reserved these offsets for 'west'")
    assert not more


def test_a_topic_whose_partitions_the_source_does_not_count_is_vouched_for_by_nobody() -> None:
    """There could be more of them."""
    pair = Pair()
    pair.east.denied.add(("DESCRIBE", "orders"))
    for each in pair.asked().values():
        assert "the source does not report its number of partitions: MIRROR_AUTHORIZATION" in each.uncertainty


def test_a_source_that_is_dead_or_another_cluster_is_told_before_anything_is_compared() -> None:
    pair = Pair()
    east = pair.east
    pair.east = MemoryCluster("east", id="another").with_topic("orders", 2)
    with pytest.raises(errors.AnotherCluster):
        pair.asked()
    pair.east, east.dead = east, True
    with pytest.raises(errors.SourceSilent):
        pair.asked()


def test_topics_that_somebody_else_copies_are_compared_record_by_record_by_their_names() -> None:
    """At the offsets of a map, if one was stored; a partition that one side lacks is not equal."""
    east = GuardedCluster("east").with_topic("orders", 3, 10)
    west = GuardedCluster("west").with_topic("east.orders", 2, 10)
    follow(
        FollowRequest(mirror="dr", copied_by=Copier.MM2, rename=("mm2-default",)), east.side(), west.side(), a_command()
    )
    spec = spec_at(west.side(), DR, a_command(), any_copier=True)
    at = MirrorPartition("east.orders", 1)
    west.write(
        OFFSETS_TOPIC,
        OffsetRangeWritten(mirror=DR, partition=at, source=SourceOffset(0), destination=DestinationOffset(3)),
    )
    mirror = clusters(spec, east, west)
    prepared = prepare(mirror, ValidationRequest(), a_command())
    assert prepared.level is Level.RECORDS
    found = {each.partition: each for each in prepared.partitions}
    assert [str(each.source) for each in prepared.partitions] == ["orders-0", "orders-1", "orders-2"]
    assert [each.state for each in prepared.partitions] == [*2 * [MirrorState.MIRRORING], MirrorState.UNKNOWN]
    assert found[at].map.locate(SourceOffset(4)) == 7
    lacking = ValidatedPartition(request=found[MirrorPartition("east.orders", 2)])
    assert lacking.reason == "UNKNOWN: east.orders has 2 partition(s), and 3 at the source"
    with pytest.raises(errors.Misconfigured, match="--level batches: MirrorMaker 2 writes"):
        prepare(mirror, ValidationRequest(level=Level.BATCHES), a_command())


def test_differences_of_a_copy_at_other_offsets_say_what_compares_it() -> None:
    """They looked like losses. A copy that is equal, or compared by a map, needs no such word."""
    east = GuardedCluster("east").with_topic("orders", 2, 10)
    west = GuardedCluster("west").with_topic("east.orders", 2, 10)
    request = FollowRequest(mirror="dr", copied_by=Copier.MM2, rename=("mm2-default",))
    spec = follow(request, east.side(), west.side(), a_command()).spec
    mapped = MirrorPartition("east.orders", 1)
    west.write(
        OFFSETS_TOPIC,
        OffsetRangeWritten(
            mirror=DR,
            partition=mapped,
            source=SourceOffset(0),
            destination=DestinationOffset(3),
            mirror_id=spec.mirror_id,
        ),
    )
    asked = prepare(clusters(spec, east, west), ValidationRequest(), a_command()).partitions
    read = LogSummary(records=1)
    differs = Comparison(source=read, destination=read, counts={DifferenceKind.CHANGED: 1})
    same = Comparison(source=read, destination=read)
    why = (
        "1 changed; compared at equal offsets, which MirrorMaker 2 does not promise: `tanist reconcile dr` tells which "
        "records have no copy at any offset"
    )
    assert [ValidatedPartition(request=each, compared=differs).reason for each in asked] == [why, "1 changed"]
    assert [ValidatedPartition(request=each, compared=same).reason for each in asked] == ["", ""]


def test_rows_of_both_logs_of_a_partition_have_the_name_of_the_copy() -> None:
    source = LogSpan(partition=TopicPartition("orders", 0), start=0, until=5, copy=TopicPartition("east.orders", 0))
    copy = LogSpan(partition=TopicPartition("east.orders", 0), start=0, until=5)
    both = Spans(source=(source,), destination=(copy,))
    assert source.at == copy.at
    assert both.of({TopicPartition("east.orders", 0)}) == both
