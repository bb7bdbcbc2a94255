"""The one loop that waits for something to become true."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tanist.domain.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Clock, Deadline

_T = TypeVar("_T")


def until(ask: Callable[[], _T | None], by: Deadline, clock: Clock, late: Callable[[], str], every: float = 0.2) -> _T:
    """The first answer of `ask` that is true; it is asked every `every` seconds.

    Raises:
        TimedOut: there was none by the deadline; says `late()`. And whatever `ask` raises.
    """
    while not (found := ask()):
        if not by.left(clock.monotonic()):
            raise TimedOut(late())
        clock.wait(every)
    return found
