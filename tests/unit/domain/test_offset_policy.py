"""How the offsets of a mirror relate, as its ranges on record say."""

from __future__ import annotations

from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OffsetRangeWritten
from tests.builders import DR, a_mirror, a_view

SHIFTED, SAME = MirrorPartition("orders", 0), MirrorPartition("orders", 1)
SPEC = a_mirror()
RANGES = [
    OffsetRangeWritten(
        mirror=DR,
        partition=SHIFTED,
        source=SourceOffset(source),
        destination=DestinationOffset(destination),
        mirror_id=SPEC.mirror_id,
    )
    for source, destination in ((10, 12), (30, 30))
]


def test_offsets_are_identical_but_where_ranges_say_otherwise() -> None:
    policy = OffsetPolicy.of(a_view(*RANGES), SPEC)
    assert policy.with_ranges == {SHIFTED}
    assert [policy.in_copy(SHIFTED, SourceOffset(n)) for n in (5, 10, 20, 40)] == [5, 12, 22, 40]
    assert [policy.copied(SHIFTED, DestinationOffset(n)) for n in (5, 12, 22, 40)] == [5, 10, 20, 40]
    assert policy.in_copy(SAME, SourceOffset(20)) == 20
    assert policy.copied(SAME, DestinationOffset(20)) == 20


def test_the_range_of_an_offset_begins_at_its_source_offset() -> None:
    ranges = OffsetPolicy.of(a_view(*RANGES), SPEC).map_of(SHIFTED)
    assert [ranges.begin_of(SourceOffset(n)) for n in (9, 10, 29, 30, 99)] == [0, 10, 10, 30, 30]
