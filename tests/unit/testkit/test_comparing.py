"""The comparison finds every single thing that can be wrong, and names it."""

from __future__ import annotations

from array import array

import pytest

from tanist_testkit.verify.comparing import Differences, compare, missing
from tanist_testkit.verify.traces import Place, Trace, digest, merged
from tests.builders import HERE

SOURCE = [(3, 33), (4, 44), (5, 55), (8, 88), (9, 99)]


def trace(rows: list[tuple[int, int]], start: int = 3, end: int = 10) -> Trace:
    return Trace(array("q", [o for o, _ in rows]), array("q", [d for _, d in rows]), start, end)


def differences(rows: list[tuple[int, int]], start: int = 3, end: int = 10) -> Differences:
    verdict = compare(HERE, trace(SOURCE), trace(rows, start, end))
    assert bool(verdict.first) == bool(verdict.differences)
    assert verdict.records == len(SOURCE)
    return verdict.differences


def test_the_same_is_the_same() -> None:
    assert not differences(SOURCE)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([(3, 33), (4, 44), (8, 88), (9, 99)], Differences(lost=1)),
        ([(3, 33), (4, 44), (5, 55), (8, 88)], Differences(lost=1)),
        ([], Differences(lost=5)),
        ([(3, 33), (4, 44), (5, 56), (8, 88), (9, 99)], Differences(altered=1)),
        ([(3, 33), (4, 44), (5, 55), (6, 55), (8, 88), (9, 99)], Differences(repeated=1)),
        ([(3, 33), (4, 44), (5, 55), (6, 66), (8, 88), (9, 99)], Differences(foreign=1)),
        ([(3, 33), (4, 44), (5, 55), (7, 88), (9, 99)], Differences(misplaced=1)),
        ([(3, 33), (4, 55), (5, 44), (8, 88), (9, 99)], Differences(reordered=1, misplaced=1)),
        ([(3, 33), (4, 44), (5, 44), (6, 55), (9, 88), (10, 99)], Differences(repeated=1, misplaced=3)),
        ([(3, 33), (4, 44), (5, 44), (8, 88), (9, 99)], Differences(lost=1, repeated=1)),
    ],
)
def test_one_difference_is_found_and_named(rows: list[tuple[int, int]], found: Differences) -> None:
    assert differences(rows) == found


@pytest.mark.parametrize(("start", "end", "wrong"), [(3, 11, 1), (0, 10, 1), (0, 11, 2)])
def test_logs_that_start_or_end_elsewhere_differ(start: int, end: int, wrong: int) -> None:
    assert differences(SOURCE, start, end) == Differences(bounds=wrong)


def test_a_shifted_copy_is_right_where_the_map_says_so() -> None:
    shifted = trace([(offset + 2, digest) for offset, digest in SOURCE], 5, 12)
    assert not compare(HERE, trace(SOURCE), shifted, lambda offset: offset + 2).differences
    assert compare(HERE, trace(SOURCE), shifted).differences.misplaced == len(SOURCE)


def test_the_first_difference_names_partition_and_offsets() -> None:
    verdict = compare(HERE, trace(SOURCE), trace([(3, 33), (4, 44), (5, 56), (8, 88), (9, 99)]))
    assert verdict.first == "orders-0: the record of 5 is another one in the copy"
    assert verdict.first_at == (HERE, 5, 5)


def test_what_was_acknowledged_and_is_not_there_is_counted() -> None:
    reported = trace([(4, 44), (5, 55), (6, 66), (9, 98)])
    assert missing(reported, trace(SOURCE)) == 2
    assert missing(reported, trace([(o + 1, d) for o, d in SOURCE]), lambda offset: offset + 1) == 2


@pytest.mark.parametrize(
    "other",
    [
        (b"K", b"value", [("h", b"1")], 1),
        (None, b"value", [("h", b"1")], 1),
        (b"k", b"valuf", [("h", b"1")], 1),
        (b"k", None, [("h", b"1")], 1),
        (b"k", b"value", [("h", b"2")], 1),
        (b"k", b"value", [("h", None)], 1),
        (b"k", b"value", [("h", b"1"), ("h", b"1")], 1),
        (b"k", b"value", None, 1),
        (b"k", b"value", [("h", b"1")], 2),
    ],
)
def test_a_digest_holds_everything_that_a_record_carries(other: tuple[bytes, bytes, None, int]) -> None:
    assert digest(*other) != digest(b"k", b"value", [("h", b"1")], 1)


def test_witnesses_are_put_together() -> None:
    both = merged([{HERE: trace([(1, 11)])}, {HERE: trace([(2, 22)]), Place("x", 1): trace([(0, 0)])}])
    assert list(both[HERE].offsets) == [1, 2]
    assert len(both) == 2


def test_a_record_that_was_acknowledged_without_an_offset_is_looked_for_by_what_it_carries() -> None:
    """Where an answer was lost, a client may learn that a batch was written, and not where."""
    acknowledged = merged([{HERE: trace([(4, 44)])}, {HERE: Trace()}])[HERE]
    for digest_ in (55, 66):
        acknowledged.add(None, digest_)
    assert len(acknowledged) == 3
    assert missing(acknowledged, trace(SOURCE)) == 1
