"""What every MirrorMakerTopics does."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell
from tanist.domain.mirrormaker.records import OffsetSync, SyncsDeleted, Undecodable
from tanist.domain.names import DestinationOffset, SourceOffset, SourcePartition
from tests.contracts.reached import SOON

if TYPE_CHECKING:
    from tests.contracts.reached import Reached

KEY = bytes.fromhex("00066f726465727300000000")
AT = SourcePartition("orders", 0)


def test_a_topic_is_read_whole_in_its_order_whatever_is_in_it(reached: Reached, topic_name: str) -> None:
    (at,) = reached.topic(topic_name, 1)
    reached.world.write_raw(at, [(KEY, pack(">qq", each, each)) for each in range(300)])
    reached.world.write_raw(at, [(KEY, None), (None, b"x"), (b"", b""), (KEY, pack(">qq", 7, 9))])
    read = reached.mirrormaker.offset_syncs(at.topic, SOON(20))
    assert read.events[:300] == tuple(OffsetSync(AT, SourceOffset(n), DestinationOffset(n)) for n in range(300))
    last = OffsetSync(AT, SourceOffset(7), DestinationOffset(9))
    nothing = (Undecodable("it has no key"), Undecodable("it ends early"))
    assert read.events[300:] == (SyncsDeleted(AT), *nothing, last)
    assert (read.topic, read.start, read.compacted) == (at.topic, 0, False)
    assert read.written_at > 0


def test_an_empty_topic_is_read_to_its_end(reached: Reached, topic_name: str) -> None:
    (at,) = reached.topic(topic_name, 1)
    for read in (reached.mirrormaker.checkpoints, reached.mirrormaker.heartbeats):
        assert read(at.topic, SOON(10)).events == ()


def test_a_topic_that_is_missing_or_may_not_be_read_is_an_error(reached: Reached, topic_name: str) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        reached.mirrormaker.offset_syncs(f"{topic_name}-missing", SOON(10))
    (at,) = reached.topic(topic_name, 1)
    reached.world.write_raw(at, [(KEY, None)])
    reached.world.deny("READ", "Topic", at.topic)
    with pytest.raises(TopicAuthorizationFailed):
        reached.mirrormaker.offset_syncs(at.topic, SOON(10))


def test_a_dead_cluster_tells_nothing(dead: Reached) -> None:
    with pytest.raises(CouldNotTell):
        dead.mirrormaker.offset_syncs("mm2-offset-syncs.west.internal", SOON(0.5))
