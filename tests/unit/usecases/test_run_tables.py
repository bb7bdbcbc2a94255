"""The tables by which something that was approved is run, and what is put back of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import Misconfigured
from tanist.usecases.failback.aborting import ABORT
from tanist.usecases.failback.recreating import RECREATION
from tanist.usecases.failback.replay import REPLAY
from tanist.usecases.failback.reversal_route import REVERSAL
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.runs.runner import Reporting, RowRunner, RunRow, RunTable, Unrecorded
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from tanist.domain.failover.evidence import Evidence

ROWS: tuple[RunRow[list[str], list[str], None, int], ...] = (
    RunRow("a", "A", lambda did: did.append("a"), lambda did: did.append("not a")),
    RunRow("b", "B", lambda did: did.append("b"), holds=lambda seen: seen > 1),
    RunRow("c", "C", lambda did: did.append("c"), lambda did: did.append("not c")),
    RunRow("d", "D", lambda did: did.append("d"), holds=lambda seen: seen > 3),
)
TABLE = RunTable("a test", ROWS, no_return="d", is_past=lambda seen: seen > 2)


class Book:
    """The port `Sink`, in memory."""

    def __init__(self) -> None:
        self.evidence: Evidence | None = None

    def flush(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def before(self) -> Evidence | None:
        return self.evidence


RECORD = Unrecorded("dr", "cafe", "{}", "0-1", "ann")


def runner(book: Book, heard: list[str]) -> RowRunner:
    to = Reporting(sink_of=lambda _plan: book, listener=lambda step, what, _reason: heard.append(f"{step} {what}"))
    return RowRunner.of(RECORD, to, JumpingClock(), {"run": "test"})


def test_rows_are_done_in_order_and_put_back_backwards() -> None:
    did, heard, book = list[str](), list[str](), Book()
    runner(book, heard).do(TABLE, did, until="c")
    TABLE.put_back(did)
    runner(book, heard).do(TABLE, did, after="c")
    assert did == ["a", "b", "c", "not c", "not a", "d"]
    assert heard == [f"{each} {what}" for each in "abcd" for what in ("begins", "done")]


def test_the_evidence_of_a_run_is_continued_by_the_command_that_continues_it() -> None:
    book, heard = Book(), list[str]()

    def refuse(_did: list[str]) -> None:
        raise Misconfigured("the disk is full")

    broken = RunTable("a test", (*ROWS[:2], replace(ROWS[2], act=refuse), ROWS[3]), no_return="d")
    with pytest.raises(Misconfigured, match="the disk is full"):
        runner(book, heard).do(broken, [])
    assert heard[-1] == "c stopped"
    runner(book, heard).do(TABLE, [], after="b")
    assert book.evidence is not None
    assert book.evidence.broken_at() is None
    assert [(each.step, each.what) for each in book.evidence.events] == [
        *((each, what) for each in "ab" for what in ("begins", "done")),
        ("c", "begins"),
        ("c", "stopped"),
        *((each, what) for each in "cd" for what in ("begins", "done")),
    ]
    assert json.loads(book.evidence.head)["approval"] == {"id": "0-1", "by": "ann"}


def test_a_row_whose_postcondition_holds_is_not_left() -> None:
    assert TABLE.left(1) == ("a", "b", "c", "d")
    assert TABLE.left(2) == ("a", "c", "d"), "a row without one looks for itself"
    assert [row.id for row in TABLE.remaining(2, until="c")] == ["a", "c"]


def test_past_the_point_of_no_return_nothing_before_it_is_looked_at() -> None:
    assert TABLE.left(3) == ("d",)
    assert TABLE.left(4) == ()
    assert TABLE.remaining(3, until="c") == ()


def test_a_table_has_no_other_row() -> None:
    with pytest.raises(Misconfigured, match="a test has no step 'e': a, b, c, d"):
        TABLE.up_to("e")


def test_behind_the_point_of_no_return_nothing_can_be_put_back() -> None:
    with pytest.raises(ValueError, match="cannot undo c behind its point of no return"):
        RunTable("a test", ROWS, no_return="b")


def test_each_row_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="several rows of one id: a, b, c, d, a"):
        RunTable("a test", (*ROWS, ROWS[0]), no_return="d")


def test_what_can_be_put_back_of_a_failover_are_its_source_fences() -> None:
    assert ROUTE.no_return == "seal"
    assert [row.id for row in ROUTE if row.undo] == ["fence"]
    assert all(row.holds for row in ROUTE)


def test_nothing_of_a_recreation_a_replay_or_an_abort_can_be_put_back() -> None:
    assert [row.id for table in (RECREATION, REPLAY, ABORT) for row in table if row.undo] == []
    assert [table.no_return for table in (RECREATION, REPLAY, ABORT)] == ["delete", "append", "abort"]


def test_the_source_fences_are_lifted_last_and_set_again_first() -> None:
    """Producers that no ACL keeps off get acknowledgements at the old source from then on, until it has the state."""
    assert [row.id for row in REVERSAL.up_to(REVERSAL.no_return)][-3:] == ["lift", "admit", "settle"]
    assert [row.id for row in reversed(REVERSAL.rows) if row.undo] == ["lift", "configure", "deny", "take_back"]


def test_a_deny_that_a_failover_has_given_is_not_taken_for_the_reversals_own() -> None:
    """Both may be the same ACL: taken back before others are denied, and given again once these are allowed again."""
    assert REVERSAL.ids.index("take_back") < REVERSAL.ids.index("deny")
