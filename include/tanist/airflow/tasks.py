"""What every task is given, and how it says no: the errors of Tanist in Airflow's terms."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections
from tanist.composition.world import World
from tanist.domain.errors import TanistError
from tanist.usecases.sides import Run
from tanist.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task at work: every cluster by the id of its connection, and its time."""

    world: World
    run: Run


@contextmanager
def at_work(seconds: float = TASK_SECONDS) -> Iterator[Task]:
    """Everything a task needs, for so long; what goes wrong inside is told as Airflow understands it (`told`)."""
    clock = SystemClock()
    with told(), World(connections.settings()) as world:
        yield Task(world=world, run=Run(clock=clock, by=clock.deadline(seconds)))


@contextmanager
def told() -> Iterator[None]:
    """Name, reason and next step of a TanistError become the task's one error.

    Raises:
        AirflowException: trying again may help, so the task's retries apply.
        AirflowFailException: it would not; the task fails now.
    """
    try:
        yield
    except TanistError as error:
        kind = AirflowException if error.retriable else AirflowFailException
        raise kind(str(error)) from error
