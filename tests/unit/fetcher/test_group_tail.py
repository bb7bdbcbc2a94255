"""The tail of the committed offsets of a source's groups."""

from __future__ import annotations

import pytest

from tanist.fetcher.group_tail import patience_ms


@pytest.mark.parametrize(("due", "waits"), [(float("-inf"), 1), (-2.0, 1), (0.02, 20), (1e9, 500)])
def test_changes_that_nothing_was_stored_before_do_not_end_the_tail(due: float, waits: int) -> None:
    assert patience_ms(due) == waits
