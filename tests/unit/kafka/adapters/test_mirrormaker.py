"""MirrorMaker 2's topics as fetches bring them: several batches, some compressed, holes that a cleaner has left."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell
from tanist.domain.log_ends import LogEnds
from tanist.domain.mirrormaker.records import OffsetSync, SyncsDeleted, Undecodable
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.kafka.adapters import log_reader, mirrormaker
from tanist.kafka.adapters.mirrormaker import LAST_HEARTBEATS, KafkaMirrorMakerTopics
from tanist.kafka.protocol.frames import FetchedPartition
from tanist.ports.clock import Deadline
from tanist.ports.topics import TopicFacts
from tests.builders import AT_SOURCE
from tests.unit.kafka.protocol.batches import GZIP, encode_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition

TOPIC, BY = "mm2-offset-syncs.west.internal", Deadline(1e9)
KEY = bytes.fromhex("00066f726465727300000000")


def a_value(upstream: int, downstream: int) -> bytes:
    return pack(">qq", upstream, downstream)


class Leader:
    """Of the only partition that is read; it also describes the topic."""

    def __init__(self) -> None:
        self.ends: LogEnds | TanistError = LogEnds(start=3, last_stable=12, high_watermark=12)
        self.asked: list[int] = []
        self.there: int | TanistError = 1
        self.facts: TopicFacts | TanistError = TopicFacts(
            name=TOPIC,
            topic_id="",
            internal=False,
            partitions=1,
            replication_factor=1,
            effective={"cleanup.policy": "compact"},
        )
        self.batches = [
            encode_batch([a_value(0, 0), a_value(9, 9)], base_offset=3, key=KEY),
            encode_batch(
                [a_value(20, 20), None, b"short"], base_offset=8, key=KEY, attributes=GZIP, timestamp_ms=5_000
            ),
        ]

    def fetch(
        self, _router: object, offsets: Mapping[TopicPartition, int], *_: object
    ) -> dict[TopicPartition, FetchedPartition]:
        ((at, offset),) = offsets.items()
        self.asked.append(offset)
        assert at == (TOPIC, 0), "MM2 writes to no other partition"
        found = b"".join(bytes(each) for each in self.batches if each is self.batches[-1] or offset <= 4)
        records = memoryview(found if offset <= 10 else b"")
        end = max(12, getattr(self.ends, "high_watermark", 0))
        return {at: FetchedPartition(at.topic, 0, 0, end, end, 0, (), records)}

    def pause(self, *_: object) -> None:
        """Nobody else is at work."""

    def partitions(self, names: Sequence[str], _by: Deadline) -> dict[str, int | TanistError]:
        return dict.fromkeys(names, self.there)

    def describe(self, names: Sequence[str], *_: object) -> dict[str, TopicFacts | TanistError]:
        return dict.fromkeys(names, self.facts)


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def topics(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> KafkaMirrorMakerTopics:
    monkeypatch.setattr(log_reader, "fetch", leader.fetch)
    monkeypatch.setattr(mirrormaker, "readable_ends", lambda _, partitions, __: dict.fromkeys(partitions, leader.ends))
    monkeypatch.setattr(mirrormaker, "KafkaTopics", lambda _: leader)
    router: Any = leader
    return KafkaMirrorMakerTopics(router)


def test_a_topic_is_read_to_its_end_in_its_order(topics: KafkaMirrorMakerTopics) -> None:
    read = topics.offset_syncs(TOPIC, BY)
    pairs = ((0, 0), (9, 9), (20, 20))
    syncs = [OffsetSync(AT_SOURCE, SourceOffset(up), DestinationOffset(down)) for up, down in pairs]
    assert read.events == (*syncs, SyncsDeleted(AT_SOURCE), Undecodable("it ends early"))
    assert (read.topic, read.start, read.compacted, read.written_at) == (TOPIC, 3, True, 5_002)


def test_a_topic_whose_configuration_may_not_be_read_may_have_lost_something(
    leader: Leader, topics: KafkaMirrorMakerTopics
) -> None:
    leader.facts = TopicAuthorizationFailed(TOPIC)
    assert not topics.offset_syncs(TOPIC, BY).compacted


def test_an_empty_topic_has_nothing(leader: Leader, topics: KafkaMirrorMakerTopics) -> None:
    leader.ends = LogEnds(start=0, last_stable=0, high_watermark=0)
    assert topics.heartbeats(TOPIC, BY).events == topics.checkpoints(TOPIC, BY).events == ()
    assert topics.offset_syncs(TOPIC, BY).written_at == 0


def test_of_a_week_of_heartbeats_only_the_last_ones_are_read(leader: Leader, topics: KafkaMirrorMakerTopics) -> None:
    """600,000 in one segment, for one note. Here: all before offset 8 are older than the last thousand offsets."""
    leader.ends = LogEnds(start=3, last_stable=8 + LAST_HEARTBEATS, high_watermark=8 + LAST_HEARTBEATS)
    asked = leader.asked
    assert len(topics.heartbeats(TOPIC, BY).events) == 3
    assert min(asked) == 8
    asked.clear()
    topics.checkpoints(TOPIC, BY)
    assert min(asked) == 3, "of the others all count"


def test_what_keeps_it_from_being_read_is_raised(leader: Leader, topics: KafkaMirrorMakerTopics) -> None:
    leader.ends = CouldNotTell("no leader")
    with pytest.raises(CouldNotTell, match="no leader"):
        topics.offset_syncs(TOPIC, BY)
    leader.there = UnknownTopicOrPartition(TOPIC)
    with pytest.raises(UnknownTopicOrPartition):
        topics.offset_syncs(TOPIC, BY)
