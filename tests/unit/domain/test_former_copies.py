"""After a reversal the producer fences of the old direction are renewed where the mirror copies from now."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tanist.domain.moves import MoveStatus
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, ProducerId
from tanist.domain.promotions import former_copies
from tanist.domain.writer_identity import ProducerIds
from tests.builders import a_lineage, a_move, a_topic, a_view

IDS: Final = ProducerIds(ProducerId(7), ProducerId(8), ProducerId(9))
MOVED: Final = a_move(
    MoveStatus.MOVED,
    cluster_id="E",
    plan="h",
    approval="0-1",
    approver="a",
    at=EpochMs(4),
    mirror_id="i",
    producer_ids=IDS,
)
TO_WEST: Final = a_lineage(10, 12, old_cluster_id="E", new_cluster_id="W", topic_id="t", mirror_id="i")


def test_every_partition_that_took_over_here_is_fenced_by_the_ids_of_the_old_direction() -> None:
    (found,) = former_copies(a_view(MOVED, TO_WEST))
    assert found.partitions == (MirrorPartition("orders", 0), MirrorPartition("orders", 1))
    assert (found.topic_id, found.writer) == ("t", IDS)


def test_nothing_is_written_here_once_another_cluster_has_taken_over() -> None:
    """This cluster is the old source then, and about to be copied to."""
    back = replace(TO_WEST, promotion_epoch=2, old_cluster_id="W", new_cluster_id="E")
    assert not tuple(former_copies(a_view(MOVED, TO_WEST, back)))


def test_a_topic_that_another_mirror_has_now_is_left_alone() -> None:
    taken = a_topic(mirror=MirrorName("other"), source_topic_id="s", partitions=2, changed_at=EpochMs(5))
    assert not tuple(former_copies(a_view(MOVED, TO_WEST, taken)))


def test_an_unfinished_reversal_and_a_record_of_an_earlier_version_name_no_copies() -> None:
    assert not tuple(former_copies(a_view(replace(MOVED, status=MoveStatus.MOVING), TO_WEST)))
    assert not tuple(former_copies(a_view(replace(MOVED, producer_ids=()), TO_WEST)))
