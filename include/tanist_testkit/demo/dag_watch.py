"""One run of a DAG as it goes on: every task is told as it changes, and the gate is answered."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TimedOut, Unreachable
from tanist_testkit.sandbox.airflow.rest import ENDED, AirflowRefused

if TYPE_CHECKING:
    from tanist.ports.clock import Clock
    from tanist_testkit.demo.screen import Screen
    from tanist_testkit.sandbox.airflow.rest import Rest

GATE: Final = "approve"
OPTION: Final = "Approve"
_POLL_SECONDS: Final = 0.4
_AGAIN_SECONDS: Final = 4.0
"""The gate is read for so long before it is answered, and answered again if it still asks.

Airflow may lose an answer that comes while it still counts the question as running, which fails the run.
"""
_WAITING: Final = "awaiting_input"
_HEAD: Final = 2
"""Paragraphs of the question that are told: the plan, its forecast."""
_NOT_YET: Final = frozenset({None, "scheduled", "queued"})


class DagWatch:
    """`door`: where a person answers the gate. `refused`: how often an answer of who had asked was refused."""

    def __init__(self, screen: Screen, clock: Clock, run: tuple[str, str], door: str) -> None:
        """`run`: names of the DAG and of its run."""
        self._screen, self._clock = screen, clock
        self._run, self._door = run, door
        self._states: dict[str, str | None] = {}
        self._asked_at: float | None = None
        self.refused = 0

    def until_over(self, asks: Rest, approves: Rest | None, seconds: float) -> dict[str, str | None]:
        """The states of its tasks in the end. `approves`: who answers the gate; None: a person does.

        Raises:
            TimedOut: it has not ended within `seconds`.
        """
        by = self._clock.deadline(seconds)
        while not self._over(asks, approves):
            if not by.left(self._clock.monotonic()):
                raise TimedOut(f"run {self._run[1]} of {self._run[0]} has not ended: {self._states}")
            self._clock.wait(_POLL_SECONDS)
        return self._states

    def _over(self, asks: Rest, approves: Rest | None) -> bool:
        """Whether it is; one look at it. An Airflow that does not answer on a busy machine is asked again."""
        try:
            over = asks.run(*self._run)["state"] in ENDED
            self._look(asks)
            self._gate(asks, approves)
        except Unreachable as silent:
            self._screen.note(f"  {silent.reason}")
            return False
        return over

    def _look(self, reader: Rest) -> None:
        for task in reader.tasks(*self._run):
            before, self._states[task.id] = self._states.get(task.id), task.state
            if task.state != before and task.state not in _NOT_YET:
                self._screen.note(f"  {task.id}: {task.state}")

    def _gate(self, asks: Rest, approves: Rest | None) -> None:
        if self._states.get(GATE) != _WAITING:
            self._asked_at = None
            return
        now = self._clock.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._show(asks)
            if approves:
                self._answer(asks)
            else:
                self._screen.event(f"answer it: {self._door}")
        elif approves and now - self._asked_at >= _AGAIN_SECONDS:
            self._asked_at = now
            self._answer(approves)

    def _show(self, reader: Rest) -> None:
        for gate in reader.gates(*self._run):
            for part in (gate["subject"], *gate["body"].split("\n\n")[:_HEAD]):
                self._screen.note(f"    {part.replace('**', '')}")

    def _answer(self, person: Rest) -> None:
        try:
            person.answer(*self._run, GATE, OPTION)
        except AirflowRefused as refusal:
            if refusal.status == HTTPStatus.FORBIDDEN:
                self.refused += 1
                self._screen.note(f"    {person.user} answers {OPTION} and is refused: no respondent")
        else:
            self._screen.note(f"    {person.user} answers {OPTION}")
