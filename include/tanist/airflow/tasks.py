"""The context of every task, and the translation of Tanist's errors to Airflow's."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections
from tanist.domain.errors import MirrorLocked, TanistError
from tanist.domain.names import mirror_name
from tanist.domain.problems import each, of_mirror
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import CommandContext
from tanist.usecases.items import step_items
from tanist.wiring.failover import is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry
from tanist.wiring.status import advise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Clock

TASK_SECONDS: Final = 60.0
ADVICE_SECONDS: Final = 20.0
_PROGRESS_SECONDS: Final = 30.0
NAMED: Final = 100
"""Partitions in the XCom of a task, which Airflow stores as a whole."""
WHY: Final = "why"
"""The XCom in which a failed task stores its reason for the task `report`."""

Again: TypeAlias = "Callable[[TanistError], bool]"


def never(_error: TanistError) -> bool:
    """Never retry: a user waits for the answer and can repeat the request."""
    return False


def busy_or_retriable(error: TanistError) -> bool:
    """Retry also if the mirror is locked: the holder may be the killed earlier attempt of this task."""
    return error.retriable or isinstance(error, MirrorLocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverTask:
    """The context of a task: clusters by connection id, and the deadline."""

    registry: ClusterRegistry
    context: CommandContext


@contextmanager
def at_work(
    seconds: float = TASK_SECONDS, logins: Mapping[str, str] | None = None, again: Again = attrgetter("retriable")
) -> Iterator[FailoverTask]:
    """The context of a task for `seconds`; errors inside are translated (`translate_errors`).

    `logins`: clusters to reach by another connection than the one of their name.
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


def say_step(step: str, what: str, reason: str = "") -> None:
    """Print what becomes of a step, with its reason, in the task's log."""
    print(f"{step}: {what}{f': {reason}' if reason else ''}")  # noqa: T201


def progress_lines(clock: Clock, what: str) -> Callable[[int, int, str], None]:
    """Prints how many of how many are `what`, and why not all, in the task's log: every change, and twice a minute."""
    last: list[tuple[float, int]] = []

    def report(there: int, of: int, why: str) -> None:
        now = clock.monotonic()
        if not last or last[-1][1] != there or now - last[-1][0] >= _PROGRESS_SECONDS:
            last[:] = [(now, there)]
            print(f"{there} of {of} {what}{why and f'; not yet: {why}'}")  # noqa: T201

    return report


@contextmanager
def translate_errors(again: Again = attrgetter("retriable")) -> Iterator[None]:
    """Name, reason and next step of a TanistError become the task's error, and are stored under `WHY`.

    `again`: whether an error is worth a retry.

    Raises:
        AirflowException: a retry may help, so the task's retries apply.
        AirflowFailException: a retry would not help; the task fails now.
    """
    try:
        yield
    except TanistError as error:
        of_mirror(error, *_place())
        leave(str(error))
        kind = AirflowException if all(map(again, each(error))) else AirflowFailException
        raise kind(str(error)) from error


def _place() -> tuple[str, str]:
    """The mirror and the destination that the run was triggered for; empty: outside a task, or of no mirror alone."""
    try:
        params = get_current_context()["params"]
    except RuntimeError:
        return "", ""
    return str(params.get("mirror") or ""), str(params.get("destination") or "")


def leave(why: str) -> None:
    """Store `why` for the task `report`."""
    try:
        context = get_current_context()
    except RuntimeError:  # no task
        return
    context["ti"].xcom_push(key=WHY, value=why)


def next_of(*wanted: tuple[str, str]) -> list[list[dict[str, Any]]]:
    """What to do next about mirrors, each given with a destination, wherever it is by now, for a report.

    All of them together have ADVICE_SECONDS. Empty: nothing is to be done, or it is not known. Never raises: a report
    that is right must not fail for its advice.
    """
    clock, found = SystemClock(), list[list[dict[str, Any]]]()
    with suppress(Exception), ClusterRegistry(connections.settings()) as registry:
        context = CommandContext(clock=clock, by=clock.deadline(ADVICE_SECONDS))
        for destination, mirror in wanted:
            found.append(_next(registry, destination, mirror_name(mirror), context))
    return found + [[]] * (len(wanted) - len(found))


def _next(
    registry: ClusterRegistry, destination: str, mirror: MirrorName, context: CommandContext
) -> list[dict[str, Any]]:
    try:
        there = registry.connect(destination)
        there = registry.forwarded(there, mirror, context) or there
        (found,) = advise(registry, there, mirror, context)
    except TanistError:
        return []
    return step_items(found.steps)
