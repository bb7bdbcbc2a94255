"""What occupies the offsets of records that a cleaner has removed."""

from __future__ import annotations

import pytest

from tanist.domain.compaction import Holes, holes_of, is_compacted


@pytest.mark.parametrize(
    ("policy", "compacted"),
    [("compact", True), ("compact,delete", True), ("delete, compact", True), ("delete", False), ("", False)],
)
def test_a_policy_that_contains_compact_is_compacted(policy: str, compacted: bool) -> None:
    assert is_compacted(policy) is compacted


def test_copies_are_only_for_topics_whose_cleaner_removes_them() -> None:
    assert holes_of(Holes.COPIES, compacted=True) is Holes.COPIES
    assert holes_of(Holes.COPIES, compacted=False) is Holes.MARKERS
    for chosen in (Holes.MARKERS, Holes.REFUSE):
        for compacted in (True, False):
            assert holes_of(chosen, compacted=compacted) is chosen
