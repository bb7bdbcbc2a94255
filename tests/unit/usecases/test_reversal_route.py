"""The rows of a reversal, and what is put back of them."""

from __future__ import annotations

from tanist.usecases.failback.reversal_route import BEHIND_THE_MOVE, TO_THE_MOVE
from tanist.usecases.runs.row import RunRow, do, put_back

ROWS: tuple[RunRow[list[str]], ...] = (
    RunRow("a", lambda did: did.append("a"), lambda did: did.append("not a")),
    RunRow("b", lambda did: did.append("b")),
    RunRow("c", lambda did: did.append("c"), lambda did: did.append("not c")),
)


def test_rows_are_done_in_order_and_put_back_backwards() -> None:
    did: list[str] = []
    do(ROWS, did)
    put_back(ROWS, did)
    assert did == ["a", "b", "c", "not c", "not a"]


def test_behind_the_point_of_no_return_nothing_is_put_back() -> None:
    assert TO_THE_MOVE[-1].id == "settle"
    assert [row.id for row in (TO_THE_MOVE[-1], *BEHIND_THE_MOVE) if row.undo] == []


def test_the_source_fences_are_lifted_last_and_set_again_first() -> None:
    """Producers that no ACL keeps off get acknowledgements at the old source from then on, until it has the state."""
    assert [row.id for row in TO_THE_MOVE][-3:] == ["lift", "admit", "settle"]
    assert [row.id for row in reversed(TO_THE_MOVE) if row.undo] == ["lift", "configure", "deny", "take_back"]


def test_a_deny_that_a_failover_has_given_is_not_taken_for_the_reversals_own() -> None:
    """Both may be the same ACL: taken back before others are denied, and given again once these are allowed again."""
    ids = [row.id for row in TO_THE_MOVE]
    assert ids.index("take_back") < ids.index("deny")


def test_each_row_has_a_name_of_its_own() -> None:
    rows = (*TO_THE_MOVE, *BEHIND_THE_MOVE)
    assert len({row.id for row in rows}) == len(rows)
