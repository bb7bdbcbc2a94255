"""Which cluster wrote an offset, over any number of promotions."""

from __future__ import annotations

from random import Random

import pytest

from tanist.domain.adoption import CandidateLog
from tanist.domain.lineage import (
    Segment,
    TopicLineage,
    copied_until,
    own_start,
    primary_until,
    reserved_ranges,
    segments,
    writer_of,
)
from tanist.domain.names import MirrorPartition
from tests.builders import AT, a_lineage


def entry(epoch: int, old: str, new: str, old_end: int, reserve_end: int | None = None) -> TopicLineage:
    return a_lineage(
        old_end,
        promotion_epoch=epoch,
        old_cluster_id=old,
        new_cluster_id=new,
        reserve_ends=(old_end if reserve_end is None else reserve_end,),
    )


def test_a_reserve_belongs_to_the_old_source_and_what_follows_to_the_new_primary() -> None:
    found = segments([entry(1, "east", "west", 100, 150)], AT)
    assert found == (
        Segment(AT, 0, 100, "east", 0),
        Segment(AT, 100, 150, "east", 1, reserved=True),
        Segment(AT, 150, None, "west", 1),
    )
    assert [writer_of(found, offset) for offset in (0, 99, 100, 149, 150, 2**60)] == [
        found[0], found[0], found[1], found[1], found[2], found[2],
    ]  # fmt: skip


def test_without_a_reserve_there_is_no_segment_of_it() -> None:
    assert segments([entry(1, "east", "west", 100)], AT) == (
        Segment(AT, 0, 100, "east", 0),
        Segment(AT, 100, None, "west", 1),
    )


def test_of_a_partition_that_was_never_promoted_nothing_is_told() -> None:
    assert segments([], AT) == ()
    assert segments([entry(1, "east", "west", 100)], MirrorPartition("orders", 1)) == ()
    assert segments([entry(1, "east", "west", 100)], MirrorPartition("payments", 0)) == ()
    assert writer_of((), 7) is None
    assert writer_of(segments([entry(1, "east", "west", 100)], AT), -1) is None


def test_a_copy_that_began_anew_after_a_promotion_forgets_that_promotion() -> None:
    """The topic was deleted at west and mirrored again from east: what west once wrote is in neither log."""
    found = segments([entry(1, "east", "west", 100, 150), entry(2, "east", "west", 80)], AT)
    assert found == (Segment(AT, 0, 80, "east", 1), Segment(AT, 80, None, "west", 2))


def test_the_own_records_of_a_cluster_begin_where_it_took_over_last() -> None:
    entries = [entry(1, "east", "west", 100, 150), entry(2, "west", "east", 200, 220)]
    assert own_start(entries, AT, "east") == 220
    assert own_start(entries, AT, "west") == 0
    assert own_start((), AT, "east") == 0


@pytest.mark.parametrize("seed", range(50))
def test_every_offset_has_the_writer_that_a_simulated_history_gave_it(seed: int) -> None:
    """Oracle: a log that is written offset by offset, with promotions to and fro."""
    rng = Random(seed)
    wrote: list[tuple[str, bool]] = []
    entries = []
    old, new = "east", "west"
    for epoch in range(1, rng.randrange(2, 12)):
        wrote += [(old, False)] * rng.randrange(5)
        old_end = len(wrote)
        wrote += [(old, True)] * rng.randrange(3)
        entries.append(entry(epoch, old, new, old_end, len(wrote)))
        old, new = new, old
    rng.shuffle(entries)
    found = segments(entries, AT)
    for offset, told in enumerate(wrote):
        segment = writer_of(found, offset)
        assert segment is not None
        assert (segment.cluster_id, segment.reserved) == told
    last = writer_of(found, len(wrote))
    assert last is not None
    assert (last.cluster_id, last.reserved, last.end) == (old, False, None)


def test_a_cluster_was_the_primary_until_the_end_of_what_the_last_promotion_has_reserved() -> None:
    """Only the last promotion counts, whatever the order, and only if it led away from that cluster."""
    first, back = entry(1, "east", "west", 100, 150), entry(2, "west", "east", 200)
    assert primary_until([first], AT, "east") == 150
    assert primary_until([first], AT, "west") is None
    assert primary_until([back, first], AT, "west") == 200
    assert primary_until([back, first], AT, "east") is None
    assert primary_until([], AT, "east") is None
    assert primary_until([first], MirrorPartition("orders", 1), "east") is None
    assert primary_until([first], MirrorPartition("payments", 0), "east") is None


def test_copied_records_end_where_the_last_promotion_led_to_a_cluster() -> None:
    """Before its reserve: what lies in it was never copied. It is the last promotion alone that counts."""
    first, back = entry(1, "east", "west", 100, 150), entry(2, "west", "east", 200)
    assert copied_until([first], AT, "west") == 100
    assert copied_until([first], AT, "east") is None
    assert copied_until([back, first], AT, "east") == 200
    assert copied_until([back, first], AT, "west") is None
    assert copied_until([first], MirrorPartition("orders", 1), "west") is None
    assert copied_until([], AT, "west") is None


def test_what_promotions_between_two_clusters_have_reserved_is_in_one_of_both_logs_only() -> None:
    entries = [
        entry(1, "east", "west", 100, 150),
        entry(2, "west", "east", 200),
        entry(3, "east", "west", 300, 310),
        entry(4, "north", "west", 400, 500),
    ]
    assert reserved_ranges(entries, AT, ("west", "east")) == ((100, 150), (300, 310))
    assert reserved_ranges(entries, AT, ("east", "west")) == ((100, 150), (300, 310))
    assert reserved_ranges(entries, MirrorPartition("orders", 1), ("east", "west")) == ()
    candidate = CandidateLog(compacted=False, reserved=((100, 150), (300, 310)))
    assert [candidate.compares(offset) for offset in (99, 100, 149, 150, 305)] == [True, False, False, True, False]
