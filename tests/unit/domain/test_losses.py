"""Lost offsets: ranges that become one, and how they are counted."""

from __future__ import annotations

import pytest

from tanist.domain.losses import LostRange, describe, with_range
from tanist.domain.names import EpochMs, SourceOffset


def lost(start: int, until: int, at: int = 1) -> LostRange:
    return LostRange(SourceOffset(start), SourceOffset(until), EpochMs(at))


@pytest.mark.parametrize(
    ("held", "new", "expected"),
    [
        ([], lost(60, 85), [lost(60, 85)]),
        ([lost(60, 85)], lost(60, 85, 2), [lost(60, 85)]),
        ([lost(60, 85)], lost(60, 90, 2), [lost(60, 90)]),
        ([lost(60, 85)], lost(70, 80, 2), [lost(60, 85)]),
        ([lost(60, 85)], lost(85, 90, 2), [lost(60, 90)]),
        ([lost(60, 85)], lost(86, 90, 2), [lost(60, 85), lost(86, 90, 2)]),
        ([lost(60, 85), lost(90, 95)], lost(85, 90, 2), [lost(60, 95)]),
        ([lost(60, 85)], lost(10, 20, 2), [lost(10, 20, 2), lost(60, 85)]),
    ],
)
def test_a_loss_that_is_found_again_is_on_record_once(
    held: list[LostRange], new: LostRange, expected: list[LostRange]
) -> None:
    """A worker that dies before it has filled the lost offsets finds them again, or more by then."""
    assert with_range(held, new) == tuple(expected)


def test_lost_offsets_are_counted_and_listed() -> None:
    assert describe((), 0) == ""
    said = describe((lost(60, 85), lost(90, 91)), 4)
    assert said == "30 offsets were deleted at the source before they were copied: 60 to 84, 90 to 90, 4 earlier ones"
