"""A watched run shows each task when it changes, and answers the gate for as long as it asks."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tanist.domain.errors import TimedOut, Unreachable
from tanist_testkit.demo.airflow_runs import DagWatch
from tanist_testkit.sandbox.airflow.rest import AirflowRefused, TaskState
from tanist_testkit.screen import Screen
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.airflow.rest import Rest

ASKS, ENDED = "awaiting_input", "success"
SILENT = "silent"


class Gate:
    """A run of one task, seen by one user; `looks`: what each look sees."""

    def __init__(self, user: str, looks: Iterator[str], *, may: bool) -> None:
        self.user, self._looks, self._may = user, looks, may
        self.answers = 0
        self._state = ""

    def run(self, _dag: str, _run: str) -> dict[str, Any]:
        self._state = next(self._looks)
        if self._state == SILENT:
            raise Unreachable("timed out")
        return {"state": "success" if self._state == ENDED else "running"}

    def tasks(self, _dag: str, _run: str) -> tuple[TaskState, ...]:
        return (TaskState("approve", -1, self._state, 1),)

    def gates(self, _dag: str, _run: str) -> tuple[dict[str, Any], ...]:
        return ({"subject": "Fail over?", "body": "Plan `1c0ffee2`.\n\n**Forecast:** 3\n\nmore"},)

    def answer(self, *_: str) -> None:
        if not self._may:
            raise AirflowRefused("not a respondent", 403)
        self.answers += 1


def watched(*looks: str, person: bool = False) -> tuple[str, DagWatch, Gate]:
    """What was shown, the watch, and who approves; each look takes 0.4 s, and the last one is seen for ever."""
    console, clock = Console(stderr=True, width=200, record=True), JumpingClock()
    watch = DagWatch(Screen(console, clock), clock, ("dag", "run"), "http://here")
    seen = chain(looks, repeat(looks[-1]))
    asks, approves = Gate("op", seen, may=False), Gate("op2", seen, may=True)
    watch.until_over(as_rest(asks), None if person else as_rest(approves), 60)
    return console.export_text(), watch, approves


def as_rest(gate: Gate) -> Rest:
    return gate  # type: ignore[return-value]  # as much of it as a watch asks for


def test_who_asked_is_refused_and_the_other_one_answers_once() -> None:
    reported, watch, approves = watched(*[ASKS] * 12, ENDED)
    assert (watch.refused, approves.answers) == (1, 1)
    assert [reported.count(line) for line in (f"approve: {ASKS}", "approve: success", "op answers", "op2 answers")] == [
        1
    ] * 4
    assert "Forecast: 3" in reported
    assert "more" not in reported


def test_a_gate_is_answered_again_only_if_it_asks_again() -> None:
    """An answer that is not heard is not repeated: what fails for a user fails here."""
    _, watch, approves = watched(*[ASKS] * 24, "up_for_retry", *[ASKS] * 24, ENDED)
    assert (watch.refused, approves.answers) == (2, 2)


def test_a_person_sees_where_to_answer_and_nobody_does_it_for_them() -> None:
    reported, watch, approves = watched(*[ASKS] * 30, ENDED, person=True)
    assert (watch.refused, approves.answers) == (0, 0)
    assert reported.count("answer it: http://here") == 1


def test_the_live_line_says_whose_answer_is_awaited() -> None:
    """It repeated the chapter's title for as long as the person took."""
    clock = JumpingClock()
    screen = Screen(Console(stderr=True, width=200, record=True), clock)
    watch = DagWatch(screen, clock, ("dag", "run"), "http://here")
    with screen.step("A planned failover"):
        with pytest.raises(TimedOut):
            watch.until_over(as_rest(Gate("op", repeat(ASKS), may=False)), None, 60)
        assert screen.detail == "waiting for a person's answer: http://here"


def test_an_airflow_that_is_silent_for_a_while_is_asked_again() -> None:
    assert "success" in watched("running", SILENT, SILENT, ENDED)[0]


def test_a_run_that_does_not_end_ends_the_watch() -> None:
    with pytest.raises(TimedOut, match="has not ended"):
        watched("running")
