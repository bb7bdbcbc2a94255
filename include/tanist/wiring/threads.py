"""The same for many mirrors at once: one thread for each, with connections of its own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.names import EpochMs
    from tanist.ports.clock import Clock, Deadline
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry

_T = TypeVar("_T")
_R = TypeVar("_R")
_HEARD_SECONDS: Final = 0.5
"""A signal that comes directly before a wait begins is heard after it."""


@dataclass(frozen=True, slots=True)
class InterruptedClock:
    """`clock`, for a thread, which no signal reaches: once `stop` is set its waits end with what `error` makes.

    `clock` has to end its own waits then, or they end late.
    """

    clock: Clock
    stop: Event
    error: Callable[[], BaseException] = KeyboardInterrupt

    def now(self) -> EpochMs:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def worked(self) -> float:
        return self.clock.worked()

    def deadline(self, seconds: float) -> Deadline:
        return self.clock.deadline(seconds)

    def wait(self, seconds: float) -> None:
        """Raises what `error` makes."""
        self.clock.wait(seconds)
        if self.stop.is_set():
            raise self.error()


def for_each(
    items: Sequence[_T],
    work: Callable[[ClusterRegistry, CommandContext, _T], _R],
    registry: ClusterRegistry,
    context: CommandContext,
    *,
    most: int,
    stop: Event,
) -> list[Future[_R]]:
    """What `work` has returned or raised for each of `items`, in their order; up to `most` are done at the same time.

    Each has as much time as `context` has left now, from its own beginning. An interrupt of this thread sets `stop`,
    and is raised once the others have ended at their next wait, and what has not begun is given up.
    """
    submitted = Event()  # a pool does not wait for a thread in whose start it was interrupted: none works before that
    seconds = context.by.left(context.clock.monotonic())
    clock = InterruptedClock(context.clock, stop)

    def one(item: _T) -> _R:
        submitted.wait()
        if stop.is_set():
            raise KeyboardInterrupt
        with registry.again() as own:
            return work(own, replace(context, clock=clock, by=clock.deadline(seconds)), item)

    with ThreadPoolExecutor(most, "tanist-mirror") as pool:
        try:
            results = [pool.submit(one, item) for item in items]
            submitted.set()
            while wait(results, _HEARD_SECONDS).not_done:
                pass
        except BaseException:
            stop.set()
            submitted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results
