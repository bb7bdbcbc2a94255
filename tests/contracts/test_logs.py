"""What every Logs does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import MirrorPartition
from tests.contracts.reached import SOON

if TYPE_CHECKING:
    from tests.contracts.reached import Reached


def ends(reached: Reached, at: MirrorPartition) -> tuple[int, int, int]:
    """Log start, last stable offset, high watermark."""
    found = reached.logs.ends([at], SOON(10))[at]
    assert isinstance(found, LogEnds), found
    return (found.start, found.last_stable, found.high_watermark)


def test_ends_are_those_of_each_partition_and_of_now(reached: Reached, topic_name: str) -> None:
    written, empty = reached.topic(topic_name)
    before = reached.clock.now()
    reached.world.write(written, 3)
    found = reached.logs.ends([written, empty], SOON(10))
    after = reached.clock.now()
    assert [isinstance(each, LogEnds) and before <= each.observed_at <= after for each in found.values()] == [True] * 2
    assert (ends(reached, written), ends(reached, empty)) == ((0, 3, 3), (0, 0, 0))


def test_an_open_transaction_holds_the_last_stable_offset_and_deleting_moves_the_start(
    reached: Reached, topic_name: str
) -> None:
    (at,) = reached.topic(topic_name, 1)
    reached.world.write(at, 3)
    reached.world.write_uncommitted(at, 2)
    reached.world.delete_before(at, 2)
    assert ends(reached, at) == (2, 3, 5)


def test_versions_are_those_that_this_broker_and_we_speak(reached: Reached) -> None:
    assert reached.logs.versions(SOON(10)) == {
        "Fetch": 13,
        "Produce": 13,
        "ListOffsets": 5,
        "OffsetForLeaderEpoch": 4,
        "WriteTxnMarkers": 1,
        "InitProducerId": 4,
        "TxnOffsetCommit": 3,
        "DescribeProducers": 0,
    }


def test_a_span_of_markers_alone_is_told_from_one_with_records(reached: Reached, topic_name: str) -> None:
    (at,) = reached.topic(topic_name, 1)
    reached.world.write(at, 3)
    reached.world.mark(at, 2)
    spans = {(3, 5): True, (2, 5): False, (0, 3): False, (4, 5): True}
    for span, only in spans.items():
        assert reached.logs.only_control({at: span}, SOON(10)) == {at: only}, span
    (beyond,) = reached.logs.only_control({at: (3, 6)}, SOON(10)).values()
    assert isinstance(beyond, CouldNotTell), "nobody has read that far"


def test_a_walk_tells_where_records_lie_between_markers(reached: Reached, topic_name: str) -> None:
    (at,) = reached.topic(topic_name, 1)
    reached.world.write(at, 3)
    reached.world.mark(at, 2)
    reached.world.write(at, 2)
    for span, offsets in {(0, 7): (0, 1, 2, 5, 6), (2, 6): (2, 5), (3, 5): ()}.items():
        found = reached.logs.walk(at, span, SOON(10))
        assert tuple(each.first + n for each in found.places for n in range(each.records)) == offsets
        assert found.gap is None
    with pytest.raises(CouldNotTell):
        reached.logs.walk(at, (0, 8), SOON(10))


def test_of_many_markers_all_are_looked_at(reached: Reached, topic_name: str) -> None:
    """More than one fetch brings."""
    (at, other) = reached.topic(topic_name)
    reached.world.mark(at, 2_000)
    reached.world.mark(other, 2_000)
    reached.world.write(other, 1)
    found = reached.logs.only_control({at: (0, 2_000), other: (0, 2_001)}, SOON(10))
    assert found == {at: True, other: False}


def test_who_wrote_a_batch_is_read_from_its_header_however_large_it_is(reached: Reached, topic_name: str) -> None:
    """More bytes than are asked for at first, in several partitions at once: of most of them nothing comes then."""
    small, large, larger, marked = reached.topic(topic_name, 4)
    for at, size in ((small, 1), (large, 20_000), (larger, 900_000)):
        reached.world.write(at, 2, size)
    reached.world.write_uncommitted(marked, 2)
    asked = {small: 1, large: 1, larger: 1, marked: 1}
    found = reached.logs.producers(asked, SOON(10))
    assert [found[at] for at in (small, large, larger)] == [-1] * 3
    who = found[marked]
    assert isinstance(who, int)
    assert who >= 0
    missing = MirrorPartition(f"{topic_name}-missing", 0)
    beyond = reached.logs.producers({small: 2, large: 0, missing: 0}, SOON(10))
    assert isinstance(beyond[small], CouldNotTell), "nobody has written that far"
    assert beyond[large] == -1
    assert isinstance(beyond[missing], UnknownTopicOrPartition)
    assert reached.logs.producers({}, SOON(1)) == {}
    assert reached.logs.leader_epochs({small: 1, large: 0}, SOON(10)) == {small: 0, large: 0}
    assert isinstance(reached.logs.leader_epochs({small: 2}, SOON(10))[small], CouldNotTell)


def test_the_true_end_is_that_of_the_log(reached: Reached, topic_name: str) -> None:
    written, empty = reached.topic(topic_name)
    missing = MirrorPartition(f"{topic_name}-missing", 0)
    reached.world.write(written, 3)
    found = reached.logs.true_ends([written, empty, missing], SOON(10))
    assert (found[written], found[empty]) == (3, 0)
    assert isinstance(found[missing], UnknownTopicOrPartition)
    assert reached.logs.true_ends([], SOON(1)) == reached.logs.only_control({}, SOON(1)) == {}


def test_a_partition_that_is_not_there_does_not_hide_the_others(reached: Reached, topic_name: str) -> None:
    (at,) = reached.topic(topic_name, 1)
    missing = [MirrorPartition(topic_name, 7), MirrorPartition(f"{topic_name}-missing", 0)]
    found = reached.logs.ends([*missing, at], SOON(10))
    assert isinstance(found[at], LogEnds)
    assert [type(found[each]) for each in missing] == [UnknownTopicOrPartition] * 2


def test_a_topic_that_we_may_not_see_does_not_hide_the_others(reached: Reached, topic_name: str) -> None:
    (at,), (hidden,) = reached.topic(topic_name, 1), reached.topic(f"{topic_name}-hidden", 1)
    reached.world.deny("DESCRIBE", "Topic", hidden.topic)
    found = reached.logs.ends([hidden, at], SOON(10))
    assert isinstance(found[hidden], TopicAuthorizationFailed)
    assert isinstance(found[at], LogEnds)


def test_nothing_asked_is_nothing_answered(reached: Reached) -> None:
    assert reached.logs.ends([], SOON(1)) == {}


def test_no_producer_id_is_given_twice(reached: Reached) -> None:
    given = [reached.logs.new_producer_id(SOON(10)) for _ in range(3)]
    assert len(set(given)) == 3
    assert min(given) >= 0


def test_of_a_dead_cluster_nothing_is_told(dead: Reached) -> None:
    at = MirrorPartition("orders", 0)
    with pytest.raises(CouldNotTell):
        dead.logs.ends([at], SOON(0.5))
    with pytest.raises(CouldNotTell):
        dead.logs.true_ends([at], SOON(0.5))
    with pytest.raises(CouldNotTell):
        dead.logs.new_producer_id(SOON(0.5))
