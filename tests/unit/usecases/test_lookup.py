"""Positions outside Kafka: translated as those of groups, in the order in which they were asked about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.detached import TopicIsDetached
from tanist.domain.detached_record import TopicDetached
from tanist.domain.errors import Misconfigured, TanistError, TopicNotInMirror, Unreachable
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.problems import Problems
from tanist.domain.reconciliation.job import PositionRequest
from tanist.domain.records import OFFSETS_TOPIC, OffsetRangeWritten
from tanist.domain.state_record import Tombstone
from tanist.domain.states import DesiredState
from tanist.domain.translation import Proof
from tanist.ports.positions import Pair, ProofResult
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.offsets.lookup import (
    CopyEndNotRecorded,
    Lookup,
    LookupRequest,
    PartitionNotInMirror,
    lookup,
    lookup_item,
)
from tests.builders import DR, a_lineage
from tests.fakes.cluster import nowhere, pair_with
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.state_record import StateRecord
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

AT = PARTITIONS[0]


@dataclass
class ToldProofs:
    """The port `Proofs`, with one answer. `compared`: what it was asked."""

    answer: Proof = Proof.MATCH
    compared: list[Pair] = field(default_factory=list)

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        self.compared.extend(pairs)
        return dict.fromkeys(pairs, ProofResult(self.answer, "as the test has it"))


@dataclass
class Beside:
    """A mirror of 120 records in AT, of which nobody may ask about groups."""

    world: FailoverWorld = field(default_factory=FailoverWorld)
    proofs: ToldProofs = field(default_factory=ToldProofs)
    source_down: TanistError | None = None

    def __post_init__(self) -> None:
        self.world.east.grow(AT, 110)
        while self.world.west.ends[AT][2] < 120:
            self.world.tick()

    def write(self, *records: StateRecord | Tombstone) -> None:
        self.world.worker.append(list(records), self.world.soon())

    def shifted(self, source: int, destination: int) -> None:
        written = OffsetRangeWritten(
            mirror=DR, partition=AT, source=SourceOffset(source), destination=DestinationOffset(destination)
        )
        self.world.west.write(OFFSETS_TOPIC, written)

    def left(self, *ends: int) -> None:
        """The topic has left its mirror; with `ends` by a failover, at which its copied records ended there."""
        topic = self.world.view().topic(DR, AT.topic)
        assert topic is not None
        self.write(replace(topic, desired=DesiredState.REMOVED))
        if ends:
            self.write(a_lineage(*ends, topic=AT.topic, old_cluster_id="id-east", new_cluster_id="id-west"))

    def ask(self, *positions: PositionRequest) -> Lookup:
        source: Cluster | TanistError = self.source_down or self.world.east.side()
        mirror = OpenMirror(
            spec=self.world.spec,
            source=source,
            destination=self.world.west.side(),
            pair=self.source_down or pair_with(proofs=self.proofs),
            from_source=nowhere,
        )
        return lookup(mirror, LookupRequest(positions=positions), self.world.command())


def of(offset: int, at: MirrorPartition = AT, group: str | None = None) -> PositionRequest:
    return PositionRequest(at.topic, at.partition, offset, group)


def test_each_position_is_answered_in_its_place_also_two_of_one_partition() -> None:
    beside = Beside()
    beside.shifted(60, 58)
    items = [lookup_item(each) for each in beside.ask(of(70), of(7, group="sink"), of(0), of(70)).found]
    assert [each["destination_offset"] for each in items] == [68, 7, 0, 68]
    assert [each["group"] for each in items] == [None, "sink", None, None]
    assert items[0] == {
        "group": None,
        "topic": AT.topic,
        "partition": AT.partition,
        "source_offset": 70,
        "destination_topic": AT.topic,
        "destination_offset": 68,
        "precision": "exact",
        "reason": "",
        "proof": "match",
        "proof_reason": "",
        "clamped": False,
        "strategy": "map",
    }


def test_it_is_clamped_and_unknown_with_the_reasons_that_groups_have() -> None:
    (ahead,) = Beside().ask(of(125)).found
    item = lookup_item(ahead)
    assert (item["destination_offset"], item["precision"], item["clamped"]) == (120, "conservative", True)
    assert "5 offset(s) ahead" in item["reason"]


def test_a_proof_that_fails_is_in_the_answer() -> None:
    (item,) = map(lookup_item, Beside(proofs=ToldProofs(Proof.MISMATCH)).ask(of(7)).found)
    assert (item["proof"], item["reason"]) == ("mismatch", "as the test has it")


def test_without_its_source_a_position_is_translated_and_not_proved() -> None:
    beside = Beside(source_down=Unreachable("east is gone"))
    answer = beside.ask(of(7))
    assert answer.source_down is beside.source_down
    assert [lookup_item(each)["proof_reason"] for each in answer.found] == ["the source does not answer"]
    assert beside.proofs.compared == []


@pytest.mark.parametrize(
    ("position", "error"),
    [
        (of(-1), Misconfigured),
        (of(2**63), Misconfigured),
        (of(1, MirrorPartition("nothing", 0)), TopicNotInMirror),
        (of(1, MirrorPartition(AT.topic, 7)), PartitionNotInMirror),
        (of(1, MirrorPartition(AT.topic, -1)), PartitionNotInMirror),
    ],
)
def test_what_is_no_position_of_the_mirror_is_refused_before_any_log_is_read(
    position: PositionRequest, error: type[TanistError]
) -> None:
    beside = Beside()
    with pytest.raises(error):
        beside.ask(of(7), position)
    assert beside.proofs.compared == []


def test_every_wrong_position_of_a_list_is_named_once() -> None:
    missing = of(1, MirrorPartition("nothing", 0))
    with pytest.raises(Problems) as refused:
        Beside().ask(missing, of(-1), missing)
    assert [type(each) for each in refused.value.problems] == [TopicNotInMirror, Misconfigured]


def test_after_a_failover_a_position_never_lies_among_the_destinations_own_records() -> None:
    """120 records were copied, the destination has 20 of its own since; a sink has read 130 at the source."""
    beside = Beside()
    beside.left(120, 120)
    beside.world.west.grow(AT, 20)
    inside, ahead = beside.ask(of(100), of(130)).found
    assert (lookup_item(inside)["destination_offset"], lookup_item(inside)["precision"]) == (100, "exact")
    assert (lookup_item(ahead)["destination_offset"], lookup_item(ahead)["clamped"]) == (120, True)


def test_where_the_copied_records_are_deleted_it_begins_with_what_the_log_has() -> None:
    beside = Beside()
    beside.left(120, 120)
    beside.world.west.grow(AT, 20)
    beside.world.west.ends[AT] = (125, 140, 140)
    assert [lookup_item(each)["destination_offset"] for each in beside.ask(of(100), of(130)).found] == [125, 125]


def test_a_topic_that_left_without_a_record_of_its_end_is_not_guessed_at() -> None:
    beside = Beside()
    beside.left()
    with pytest.raises(CopyEndNotRecorded):
        beside.ask(of(7))


def test_a_detached_topic_is_named_as_one() -> None:
    beside = Beside()
    topic = beside.world.view().topic(DR, AT.topic)
    assert topic is not None
    beside.write(TopicDetached(mirror=DR, topic=AT.topic, cluster_id="id-west", kept=topic, at=EpochMs(1)))
    beside.write(Tombstone(topic.key))
    with pytest.raises(TopicIsDetached):
        beside.ask(of(7))


def test_nothing_asked_is_nothing_answered() -> None:
    assert Beside().ask().found == ()
