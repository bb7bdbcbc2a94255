"""A transaction of the mirror's own that is open in a log when every one was ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tanist.domain.fake_group import CopiedPosition
from tanist.domain.lost_markers import LostMarker, lacks_marker, lost_marker
from tanist.domain.names import DestinationOffset, ProducerId, SourceOffset

LAST: Final = CopiedPosition(SourceOffset(10), "m", "t", DestinationOffset(12), 1)
"""Two transactions of five records, a marker behind each."""


@pytest.mark.parametrize(
    ("end", "open_from", "lacks"),
    [
        (12, None, LostMarker.NONE),
        (11, 6, LostMarker.COMMIT),
        (11, None, LostMarker.TRUNCATED),
        (9, 6, LostMarker.TRUNCATED),
        (15, 12, LostMarker.ABORT),
        (18, 14, LostMarker.ABORT),
        (15, 6, LostMarker.TRUNCATED),
    ],
)
def test_what_is_behind_the_position_is_aborted_and_what_is_before_it_was_committed(
    end: int, open_from: int | None, lacks: LostMarker
) -> None:
    begins = None if open_from is None else DestinationOffset(open_from)
    assert lost_marker(DestinationOffset(end), LAST, begins) is lacks


def test_without_a_position_nothing_was_committed() -> None:
    assert lost_marker(DestinationOffset(3), None, DestinationOffset(0)) is LostMarker.ABORT
    assert lost_marker(DestinationOffset(3), None, None) is LostMarker.NONE


def test_positions_of_batches_in_no_transaction_have_no_marker_before_them() -> None:
    plain = replace(LAST, producer_id=ProducerId(7))
    assert not lacks_marker(DestinationOffset(11), plain)
    assert lacks_marker(DestinationOffset(11), LAST)
