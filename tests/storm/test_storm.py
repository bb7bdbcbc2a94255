"""Short storms, and that their schedules are the seed's."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tanist.domain.delivery import Delivery
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.screen import Screen
from tanist_testkit.verify.writing import Load
from tests.storm import mishaps, proxy
from tests.storm.schedule import MAPPED_TRACKS, TRACKS, TRANSACTION_FAULTS, Kind
from tests.storm.storm import Outcome, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.verify.flows import FlowRecord

SEED = 7
MAPPED_SEED = 11
POSITIONS = 10_000
SESSION_SECONDS = 8.0
LONG_SECONDS = 250.0
FRESH_SECONDS = 10.0
DIES_AFTER = 500
DIED = "a callback returned a result with an exception set"


def test_the_schedule_is_a_function_of_the_seed() -> None:
    for track in MAPPED_TRACKS:
        assert list(islice(track.faults(1), 50)) == list(islice(track.faults(1), 50))
        assert list(islice(track.faults(1), 50)) != list(islice(track.faults(2), 50))


def test_every_kind_of_fault_occurs_and_some_freezes_outlive_the_session() -> None:
    faults = [fault for track in TRACKS for fault in islice(track.faults(SEED), 100)]
    assert {fault.kind for fault in faults} == set(Kind) - TRANSACTION_FAULTS
    of_mapped = {fault.kind for track in MAPPED_TRACKS for fault in islice(track.faults(SEED), 100)}
    assert of_mapped == set(Kind)
    freezes = [fault.lasts for fault in faults if fault.kind is Kind.FREEZE_WORKER]
    assert min(freezes) < 1
    assert max(freezes) > SESSION_SECONDS


@pytest.mark.long
def test_a_minute_of_storm_loses_nothing(tmp_path: Path) -> None:
    clock = SystemClock()
    outcome = run(Screen(Console(soft_wrap=True), clock), clock, seconds=60, seed=SEED, directory=tmp_path)
    print(*outcome.lines(), sep="\n")  # noqa: T201 -- shown when it fails
    assert outcome.ok, "\n".join(outcome.lines())
    assert outcome.verdict.records > 10_000
    assert sum(outcome.faults.values()) > 10


def test_half_a_minute_of_storm_over_mapped_offsets_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Of the ten minutes of `make storm`; and random positions lead to the next record of their group."""
    outcome = mapped_storm(tmp_path, Delivery.EXACTLY_ONCE, seconds=30)
    assert {Kind.KILL_WORKER, Kind.FREEZE_WORKER} <= outcome.faults.keys()
    assert sum(outcome.requests.values()) > 0
    assert outcome.translated.precisions.get("exact", 0) > POSITIONS * 0.9


@pytest.mark.long
def test_a_storm_that_delivers_at_least_once_loses_nothing_and_keeps_the_order(tmp_path: Path) -> None:
    outcome = mapped_storm(tmp_path, Delivery.AT_LEAST_ONCE, seconds=40)
    assert outcome.repeats
    assert outcome.repeats.count > 0


def mapped_storm(directory: Path, delivery: Delivery, seconds: float) -> Outcome:
    """One broker at the source, three at the destination: it is there that transactions are."""
    clock = SystemClock()
    outcome = run(
        Screen(Console(soft_wrap=True), clock),
        clock,
        seconds=seconds,
        seed=MAPPED_SEED,
        directory=directory,
        brokers=(1, 3),
        delivery=delivery,
        positions=POSITIONS,
    )
    print(*outcome.lines(), sep="\n")  # noqa: T201 -- shown when it fails
    assert outcome.ok, "\n".join(outcome.lines())
    assert outcome.verdict.records > 5_000
    assert sum(outcome.translated.precisions.values()) == POSITIONS
    return outcome


class Dying(Load):
    """One of its writers dies after some records."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.writers[0]._records = ending(self.writers[0]._records)


def ending(wanted: Iterator[FlowRecord]) -> Iterator[FlowRecord]:
    yield from islice(wanted, DIES_AFTER)
    raise SystemError(DIED)


@pytest.mark.long
def test_a_storm_whose_own_writer_dies_compares_everything_and_says_who_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends there and then, and is no good storm, however equal both logs are."""
    monkeypatch.setattr("tests.storm.storm.Load", Dying)
    clock = SystemClock()
    screen, began = Screen(Console(soft_wrap=True), clock), clock.monotonic()
    outcome = run(screen, clock, seconds=LONG_SECONDS, seed=SEED, directory=tmp_path, brokers=(1, 1))
    assert clock.monotonic() - began < LONG_SECONDS
    assert outcome.broke == (f"writer-plain-0: SystemError: {DIED}",)
    assert not outcome.ok
    assert any(DIED in line for line in outcome.lines())
    assert outcome.acknowledged >= DIES_AFTER
    assert outcome.verdict.records >= outcome.acknowledged
    assert (outcome.missing, bool(outcome.verdict.differences), outcome.stuck) == ({}, False, ())


def test_what_operators_do_and_what_befalls_them_is_the_seeds() -> None:
    def drawn(seed: int) -> list[object]:
        dice = Random(seed)
        return [(verb := mishaps.verb(dice), mishaps.mishap(dice, verb, authorizer=True)) for _ in range(200)]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("authorizer", [True, False])
def test_every_request_that_changes_something_is_kept_back_somewhere(authorizer: bool) -> None:
    """And some for longer than a heartbeat is fresh, some until all was compared."""
    dice = Random(SEED)
    found = [mishaps.mishap(dice, mishaps.Verb.RUN, authorizer=authorizer, certain=True) for _ in range(2000)]
    drawn = [each for each in found if each is not None]
    assert {each.way for each in drawn} == mishaps.HELD
    at_source = {each.request[1] for each in drawn if each.request[0] == "east"}
    assert at_source == ({proxy.CREATE_ACLS} if authorizer else {proxy.INCREMENTAL_ALTER_CONFIGS})
    assert {proxy.INIT_PRODUCER_ID, proxy.END_TXN, proxy.TXN_OFFSET_COMMIT} <= {each.request[1] for each in drawn}
    assert max(each.lasts for each in drawn) > FRESH_SECONDS
    assert any(each.sleeps for each in drawn)
