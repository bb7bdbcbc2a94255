"""What every task is given, and how it says no: the errors of Tanist in Airflow's terms."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections
from tanist.composition.failover import gone, runner
from tanist.composition.world import World
from tanist.domain.errors import TanistError
from tanist.domain.problems import each
from tanist.usecases.sides import Run
from tanist.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TASK_SECONDS: Final = 60.0
WHY: Final = "why"
"""The XCom in which a task that failed leaves its reason, for those that report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task at work: every cluster by the id of its connection, and its time."""

    world: World
    run: Run


@contextmanager
def at_work(seconds: float = TASK_SECONDS, logins: Mapping[str, str] | None = None) -> Iterator[Task]:
    """Everything a task needs, for so long; what goes wrong inside is told as Airflow understands it (`told`).

    `logins`: clusters that are reached by another connection than the one of their name.
    """
    clock = SystemClock()
    with told():
        known = connections.settings()
        found = {name: known.cluster(connection) for name, connection in (logins or {}).items()}
        extra = {name: replace(c, endpoint=replace(c.endpoint, name=name)) for name, c in found.items()}
        with World(known, extra) as world:
            yield Task(world=world, run=Run(clock=clock, by=clock.deadline(seconds), holder=runner(), gone=gone))


@contextmanager
def told() -> Iterator[None]:
    """Name, reason and next step of a TanistError become the task's one error, and are left behind under `WHY`.

    Raises:
        AirflowException: trying again may help, so the task's retries apply.
        AirflowFailException: it would not; the task fails now.
    """
    try:
        yield
    except TanistError as error:
        leave(str(error))
        again = all(problem.retriable for problem in each(error))
        kind = AirflowException if again else AirflowFailException
        raise kind(str(error)) from error


def leave(why: str) -> None:
    """`why` is there for those that report."""
    try:
        context = get_current_context()
    except RuntimeError:  # no task
        return
    context["ti"].xcom_push(key=WHY, value=why)
