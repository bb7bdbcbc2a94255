"""Ranges that only one of two clusters can have, in either direction of a mirror."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.exclusive import exclusive_ranges
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tests.builders import AT, a_lineage, a_mirror

if TYPE_CHECKING:
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import MirrorSpec

NO_MAP = OffsetMap()
SPEC = a_mirror()
FIRST = a_lineage(
    100, old_cluster_id=SPEC.source_cluster_id, new_cluster_id=SPEC.destination_cluster_id, reserve_ends=(150,)
)
REVERSED = replace(
    SPEC,
    source=SPEC.destination,
    destination=SPEC.source,
    source_cluster_id=SPEC.destination_cluster_id,
    destination_cluster_id=SPEC.source_cluster_id,
)


def ranges(
    *entries: TopicLineage, spec: MirrorSpec = SPEC, offsets: OffsetMap = NO_MAP, promoted: bool = True
) -> list[tuple[bool, int, int | None]]:
    found = exclusive_ranges(entries, AT, spec, offsets, promoted=promoted)
    return [(each.at_source, each.start, each.until) for each in found]


def test_after_a_failover_the_source_has_its_reserve_and_the_destination_what_it_wrote() -> None:
    assert ranges(FIRST) == [(True, 100, 150), (False, 150, None)]


def test_a_topic_that_was_never_failed_over_has_no_such_range() -> None:
    assert ranges(promoted=False) == []


def test_after_a_reversal_only_the_tail_that_lies_in_the_old_source_is_such_a_range() -> None:
    """The new primary is the source now: what it wrote is copied, and is missing where it is not."""
    assert ranges(FIRST, spec=REVERSED, promoted=False) == [(False, 100, 150)]


def test_after_a_failover_back_the_old_tail_stays_named() -> None:
    back = replace(
        FIRST,
        promotion_epoch=2,
        old_cluster_id=FIRST.new_cluster_id,
        new_cluster_id=FIRST.old_cluster_id,
        old_ends=(300,),
        reserve_ends=(300,),
    )
    assert ranges(FIRST, back, spec=REVERSED) == [(False, 100, 150), (False, 300, None)]


def test_source_offsets_of_a_reserve_are_those_of_the_offset_map() -> None:
    """The destination is three offsets ahead."""
    ahead = OffsetMap.of([OffsetRange(SourceOffset(50), DestinationOffset(53))])
    assert ranges(FIRST, offsets=ahead) == [(True, 97, 147), (False, 150, None)]


def test_the_reserve_of_a_third_cluster_is_in_neither_log() -> None:
    other = replace(FIRST, old_cluster_id="north", new_cluster_id="south")
    assert ranges(other) == []
