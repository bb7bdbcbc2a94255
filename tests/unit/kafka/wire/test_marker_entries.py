"""How markers for many partitions are put into one request."""

from __future__ import annotations

from tanist.domain.names import TopicPartition
from tanist.kafka.wire.requests import Markers, _entries

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def shapes(markers: dict[TopicPartition, Markers]) -> list[tuple[int, int, dict[str, list[int]]]]:
    """Of each entry the producer id, the coordinator epoch, and the partitions."""
    found = _entries(markers)
    return [(e.producer_id, e.coordinator_epoch, {t.name: t.partition_indexes for t in e.topics}) for e in found]


def test_partitions_that_get_one_marker_the_same_share_an_entry() -> None:
    assert shapes({A: Markers(7, 1, (9,)), B: Markers(7, 1, (9,)), C: Markers(7, 1, (9,))}) == [
        (7, 9, {"a": [0, 1], "b": [0]})
    ]


def test_markers_of_other_ids_are_other_entries() -> None:
    assert shapes({A: Markers(7, 1, (9,)), B: Markers(8, 1, (9,)), C: Markers(7, 2, (9,))}) == [
        (7, 9, {"a": [0]}),
        (8, 9, {"a": [1]}),
        (7, 9, {"b": [0]}),
    ]


def test_several_markers_of_a_partition_are_entries_of_its_own_in_order_and_none_is_left_out() -> None:
    """Their coordinator epochs are the offsets that they are to get."""
    assert shapes({A: Markers(7, 1, (5, 6, 6)), B: Markers(7, 1, (6, 5))}) == [
        (7, 5, {"a": [0]}),
        (7, 6, {"a": [0]}),
        (7, 6, {"a": [0]}),
        (7, 6, {"a": [1]}),
        (7, 5, {"a": [1]}),
    ]
