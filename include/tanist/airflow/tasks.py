"""What every task is given, and how it says no: the errors of Tanist in Airflow's terms."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections
from tanist.domain.errors import MirrorLocked, TanistError
from tanist.domain.problems import each
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import CommandContext
from tanist.wiring.failover import is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TASK_SECONDS: Final = 60.0
WHY: Final = "why"
"""The XCom in which a task that failed leaves its reason, for those that report."""

Again: TypeAlias = "Callable[[TanistError], bool]"


def never(_error: TanistError) -> bool:
    """A person waits for the answer, and asks again if they want another."""
    return False


def busy_or_retriable(error: TanistError) -> bool:
    """Who is at work on the mirror may be what this task was before it was killed: for a moment, it still is."""
    return error.retriable or isinstance(error, MirrorLocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverTask:
    """A task at work: every cluster by the id of its connection, and its time."""

    registry: ClusterRegistry
    context: CommandContext


@contextmanager
def at_work(
    seconds: float = TASK_SECONDS, logins: Mapping[str, str] | None = None, again: Again = attrgetter("retriable")
) -> Iterator[FailoverTask]:
    """Everything a task needs, for so long; what goes wrong inside is told as Airflow understands it (`told`).

    `logins`: clusters that are reached by another connection than the one of their name.
    """
    clock = SystemClock()
    with translate_errors(again):
        known = connections.settings()
        found = {name: known.cluster(connection) for name, connection in (logins or {}).items()}
        extra = {name: replace(c, endpoint=replace(c.endpoint, name=name)) for name, c in found.items()}
        with ClusterRegistry(known, extra) as world:
            yield FailoverTask(
                registry=world,
                context=CommandContext(
                    clock=clock, by=clock.deadline(seconds), holder=runner(), is_process_dead=is_process_dead
                ),
            )


@contextmanager
def translate_errors(again: Again = attrgetter("retriable")) -> Iterator[None]:
    """Name, reason and next step of a TanistError become the task's one error, and are left behind under `WHY`.

    `again`: whether an error may pass by trying again.

    Raises:
        AirflowException: trying again may help, so the task's retries apply.
        AirflowFailException: it would not; the task fails now.
    """
    try:
        yield
    except TanistError as error:
        leave(str(error))
        kind = AirflowException if all(map(again, each(error))) else AirflowFailException
        raise kind(str(error)) from error


def leave(why: str) -> None:
    """`why` is there for those that report."""
    try:
        context = get_current_context()
    except RuntimeError:  # no task
        return
    context["ti"].xcom_push(key=WHY, value=why)
