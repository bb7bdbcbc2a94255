"""What is said of a failover follows from what its users saw; a broken promise is reported."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist_testkit.demo.promises import Moved, Promise, of_aborted, of_group, of_loss, of_planned, safe_positions
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Trace
from tests.builders import HERE

if TYPE_CHECKING:
    from collections.abc import Iterable

COPIED = [(3, 33), (4, 44), (6, 66)]
LATER = [(9, 99)]
"""Written at the destination after the takeover."""


def trace(rows: list[tuple[int, int]]) -> Trace:
    return Trace(array("q", [o for o, _ in rows]), array("q", [d for _, d in rows]))


FORECAST = {"offsets_at_risk": 2, "estimate": 152, "age_ms": 1500}
SOUND = Moved(acknowledged={HERE: trace(COPIED)}, copy={HERE: trace(COPIED)}, refused=3, afterwards=5)
BEFORE = ({"retention.ms": "1", "max.message.bytes": "2"}, "deny User:bob")


def kept(promises: Iterable[Promise]) -> dict[str, bool]:
    """Whether each promise was kept, by its first words."""
    return {" ".join(each.promise.split()[:4]): each.ok for each in promises}


def promises_kept(
    safe: int,
    first: ReadRecord,
    reached: int = 6,
    lost: list[tuple[int, int]] | None = None,
    forecast: dict[str, Any] = FORECAST,
) -> dict[str, bool]:
    """Those of an unplanned failover."""
    acknowledged, copy = {HERE: trace(COPIED + (lost or []))}, {HERE: trace(COPIED + LATER)}
    positions = safe_positions([{"topic": "orders", "partition": 0, "destination_offset": safe}])
    loss = of_loss(forecast, replace(SOUND, acknowledged=acknowledged, copy=copy))
    return kept([*loss, *of_group(copy, positions, {HERE: reached}, {HERE: first})])


@pytest.mark.parametrize(
    ("safe", "first", "well"),
    [
        (4, ReadRecord(4, 44), True),
        (5, ReadRecord(6, 66), True),
        (4, ReadRecord(6, 66), False),
        (4, ReadRecord(3, 33), False),
        (4, ReadRecord(4, 45), False),
    ],
    ids=["next", "over a marker", "one skipped", "one too early", "another record"],
)
def test_a_group_resumes_at_the_very_next_record(safe: int, first: ReadRecord, well: bool) -> None:
    assert promises_kept(safe, first)["The consumer group goes"] is well


def test_at_the_end_of_the_copy_the_next_record_is_the_first_one_written_there() -> None:
    assert promises_kept(7, ReadRecord(9, 99), reached=7)["The consumer group goes"]


def test_a_position_behind_what_the_group_had_read_skips_something() -> None:
    assert not promises_kept(6, ReadRecord(6, 66), reached=4)["The consumer group goes"]


def test_a_lost_tail_is_not_a_hole_and_a_hole_is_reported() -> None:
    assert promises_kept(4, ReadRecord(4, 44), lost=[(7, 77), (9, 90)])["What is lost is"]
    assert not promises_kept(4, ReadRecord(4, 44), lost=[(5, 55)])["What is lost is"]


def test_the_loss_is_held_against_what_the_plan_said_it_would_be_estimate() -> None:
    lost = [(100 + n, n) for n in range(153)]
    assert not promises_kept(4, ReadRecord(4, 44), lost=lost)["The source is killed:"]
    assert promises_kept(4, ReadRecord(4, 44), lost=lost[1:])["The source is killed:"]
    unknown = {"offsets_at_risk": None, "estimate": None, "age_ms": None}
    assert not promises_kept(4, ReadRecord(4, 44), forecast=unknown)["The source is killed:"]


@pytest.mark.parametrize(
    ("after", "fences", "broken"),
    [
        (BEFORE, ["lifted"], []),
        (({"retention.ms": "1"}, BEFORE[1]), ["lifted"], ["topic"]),
        (BEFORE, ["standing"], ["topic"]),
        ((BEFORE[0], "none"), ["lifted"], ["ACLs"]),
    ],
    ids=["nothing", "a setting", "the fence", "an ACL"],
)
def test_whatever_an_abort_leaves_behind_at_the_source_breaks_its_promise(
    after: tuple[dict[str, str], str], fences: list[str], broken: list[str]
) -> None:
    of_abort = [each for each in of_aborted(BEFORE, after, fences, SOUND) if each.promise.startswith("An aborted")]
    assert [each.promise.split()[6] for each in of_abort if not each.ok] == broken
    assert len(of_abort) == 2


def test_a_planned_failover_that_lost_a_record_or_stopped_nobody_breaks_its_promise() -> None:
    assert all(kept(of_planned(SOUND)).values())
    lost = replace(SOUND, acknowledged={HERE: trace([*COPIED, (7, 77)])})
    assert kept(of_planned(lost)) == {"A planned failover loses": False, "Its fence stops the": True}
    assert not kept(of_planned(replace(SOUND, refused=0)))["Its fence stops the"]
    assert not kept(of_planned(replace(SOUND, afterwards=0)))["Its fence stops the"]
    assert not kept(of_aborted(BEFORE, BEFORE, ["lifted"], lost))["After the abort its"]
