"""Two rounds of the storm over the circle, and that its account sees what must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.screen import Screen
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Place, Trace
from tests.storm.accounts import Account, Log, Origin, Tail, account, of_compacted
from tests.storm.circle import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SEED = 7
AT = Place("orders", 0)
TAIL = Tail("east", AT, 2, 4)
"""Records 20 and 30 lie there; the first one was replayed at 6."""
EAST = {0: 1, 1: 2, 2: 20, 3: 30, 5: 7, 6: 20}
WEST = {0: 1, 1: 2, 5: 7, 6: 20}
RESCUED = {0: 20, 1: 30}
ORIGINS = {0: Origin("E", AT, 2), 1: Origin("E", AT, 3)}


def trace(records: Mapping[int, int]) -> Trace:
    found = Trace()
    for offset, identity in records.items():
        found.add(offset, identity)
    return found


def log(cluster_id: str, records: Mapping[int, int], origins: Mapping[int, Origin]) -> Log:
    return Log(cluster_id, {AT: trace(records)}, {AT: origins})


def accounted(
    east: Mapping[int, int] = EAST,
    west: Mapping[int, int] = WEST,
    rescued: Mapping[int, int] = RESCUED,
    acknowledged: Mapping[int, int] = EAST,
    terms: tuple[int, ...] = (5,),
    tails: tuple[Tail, ...] = (TAIL,),
) -> Account:
    replayed = {6: ORIGINS[0], 7: ORIGINS[0]}
    logs = {"east": log("E", east, replayed), "west": log("W", west, replayed)}
    quarantine = log("W", rescued, ORIGINS)
    return account(logs, [quarantine], tails, {"east": {AT: trace(acknowledged)}}, {AT: terms})


def test_a_tail_that_was_rescued_and_replayed_is_no_difference() -> None:
    found = accounted()
    assert not found.wrong
    assert (found.verdict.records, found.only_once, found.quarantined) == (4, 2, 2)


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("1 lost", {"west": {0: 1, 5: 7, 6: 20}}),
        ("1 altered", {"west": WEST | {5: 8}}),
        ("1 foreign", {"west": WEST | {9: 9}}),
        ("1 misplaced", {"west": {0: 1, 1: 2, 4: 7, 6: 20}}),
        ("1 offsets of a tail of east have a record at the other cluster", {"west": WEST | {2: 5}}),
        ("1 records of a tail of east are not in quarantine", {"rescued": {0: 20}}),
        ("1 records of a tail of east are not in quarantine", {"rescued": {0: 20, 1: 31}}),
        ("1 acknowledged records are neither in both logs nor in quarantine", {"rescued": {0: 20}}),
        ("1 acknowledged records are not at their offset", {"acknowledged": EAST | {9: 7}}),
        ("1 records are there twice", {"east": EAST | {8: 2}, "west": WEST | {8: 2}}),
        ("1 records were replayed twice", {"east": EAST | {7: 20}, "west": WEST | {7: 20}}),
        ("1 records were replayed although they had been copied", {"west": WEST | {2: 20}, "tails": ()}),
    ],
)
def test_what_must_not_be_is_found(what: str, given: dict[str, Mapping[int, int]]) -> None:
    assert any(what in each for each in accounted(**given).wrong), accounted(**given).wrong  # type: ignore[arg-type]


def test_what_only_a_deleted_log_had_is_looked_up_in_quarantine() -> None:
    """Its offsets name other records now: the topic was copied again."""
    again = {0: 1, 1: 2, 2: 8, 5: 7, 6: 20}

    def copied_again(rescued: Mapping[int, int]) -> Account:
        replayed = {6: ORIGINS[0]}
        logs = {"east": log("E", again, replayed), "west": log("W", again, replayed)}
        return account(logs, [log("W", rescued, ORIGINS)], (), {"east": {AT: trace(EAST)}}, {AT: (2,)}, (TAIL,))

    assert not copied_again(RESCUED).wrong
    assert any("neither in both logs nor in quarantine" in each for each in copied_again({0: 20}).wrong)


def test_a_producer_that_tries_again_may_write_a_record_twice_at_its_own_cluster() -> None:
    east, west = EAST | {8: 7}, WEST | {8: 7}
    found = accounted(east, west)
    assert not found.wrong
    assert found.again == 2
    assert accounted(east, west, terms=(5, 8)).wrong


def test_keys_of_a_compacted_topic_are_compared_by_their_last_records() -> None:
    """Reserved offsets are filled with copies on one cluster only, so their offsets may differ."""
    east, west, known = ReadRecord(4, 1), ReadRecord(9, 1), ReadRecord(4, 1)
    assert not list(of_compacted({"east": {b"k": east}, "west": {b"k": west}}, [{b"k": known}], AT))
    wrong = list(of_compacted({"east": {b"k": east}, "west": {}}, [{b"k": ReadRecord(5, 2)}], AT))
    assert len(wrong) == 2
    assert list(of_compacted({"east": {b"k": east}, "west": {b"k": west}}, [{b"k": ReadRecord(4, 2)}], AT))


@pytest.mark.long
def test_two_rounds_of_the_circle_under_faults_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """An unplanned failover and a planned one, each with the way back."""
    clock = SystemClock()
    console = Console(soft_wrap=True)
    outcome = run(Screen(console, clock), clock, seconds=60, seed=SEED, directory=tmp_path, rounds=2)
    outcome.show(console)
    assert outcome.ok, (outcome.wrong, outcome.missing)
    assert outcome.tally.ways.total() > 10
