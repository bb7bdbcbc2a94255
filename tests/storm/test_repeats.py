"""A source may have one record twice: what compares its copies takes equal records for as many as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist_testkit.verify.traces import Place, Trace
from tests.storm.positions import Position, Translated, paired
from tests.storm.repeats import Repeats
from tests.storm.storm import _kept

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = Place("aged", 0)


def trace(*digests: int, at: Sequence[int] = ()) -> Trace:
    found = Trace()
    for offset, digest in zip(at or range(len(digests)), digests, strict=True):
        found.add(offset, digest)
    return found


def test_a_position_between_two_equal_records_leads_between_their_copies() -> None:
    """As a broker that had forgotten its producer has appended a batch twice."""
    pairs = paired(trace(5, 6, 6), trace(5, 6, 6, at=[0, 2, 3]))
    assert pairs == [(0, 0), (1, 2), (2, 3)]
    position = Position(place=AT, offset=2, to=3, precision="exact")
    assert Translated.of([position], {AT: pairs}).wrong == ()


def test_of_repeated_copies_as_many_are_left_as_the_source_has() -> None:
    source = trace(5, 6, 6, 7)
    found = Repeats.of({AT: source}, {AT: trace(5, 6, 6, 6, 6, 7)})
    assert (found.wrong, found.count) == ((), 2)
    assert list(found.copies[AT].digests) == list(source.digests)
    assert list(found.copies[AT].offsets) == [0, 3, 4, 5]


def test_a_copy_that_skips_a_record_before_two_equal_ones_is_told() -> None:
    found = Repeats.of({AT: trace(5, 6, 7, 7)}, {AT: trace(5, 7, 7)})
    assert found.wrong == (f"{AT}: the copy skips 1 record(s) at 1",)


def test_what_the_source_does_not_keep_is_not_missed_in_the_copy() -> None:
    acknowledged = trace(5, 6)
    for digest in (7, 8):
        acknowledged.add(None, digest)
    assert list(_kept(acknowledged, trace(5, 6, 8)).unplaced) == [8]
