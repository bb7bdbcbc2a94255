"""What an engine is: how records are copied.

The thread, the assignment, the states and the map are common to all engines.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.appending import Halt
    from tanist.domain.errors import TanistError
    from tanist.domain.states import Finding
    from tanist.fetcher.assignment import Assigned, Report


class Phase(Enum):
    """Where a partition is on its way; only the fetcher's thread changes it."""

    RECOVER = auto()
    """Both logs must be read before anything is written."""
    FILL_START = auto()
    """The destination's log start is being brought to the source's, a piece at each call of `recover`."""
    COPY = auto()
    BROKEN = auto()
    """Failed alone; only a person gets it out of here."""


class EnginePartition(Protocol):
    """One partition as an engine keeps it. It outlives recoveries; the thread that owns it owns the engine."""

    @property
    def assigned(self) -> Assigned: ...

    @property
    def halted(self) -> Halt | None:
        """Why nothing is read or appended until `recover` has been called; None: it is being copied."""
        ...

    @property
    def in_flight(self) -> bool:
        """Whether answers to appends are still to come: `recover` must not be called before."""
        ...

    @property
    def quiet(self) -> bool:
        """Nothing in flight, and nothing read that could be sent."""
        ...

    def assign(self, assigned: Assigned) -> None:
        """The assignment has changed: another claim, or no more fetching."""
        ...


class Incoming(Protocol):
    """What a `read` has asked for."""

    def ready(self) -> bool:
        """Whether `take` would not wait long."""
        ...

    def take(self) -> None:
        """Wait for it, and decide what becomes of each batch; partitions that were halted meanwhile get nothing."""
        ...


class Trouble(Protocol):
    """What the thread knows of a partition, and a report has to say."""

    @property
    def finding(self) -> Finding | None: ...
    @property
    def error(self) -> TanistError | None: ...
    @property
    def failing_since(self) -> float | None: ...


P = TypeVar("P", bound=EnginePartition)


class CopyEngine(Protocol[P]):
    """All that one thread copies. A verb takes those partitions that it concerns, because one request carries many.

    What fails for one partition halts it, and no other; `Stopped` alone is raised. Which producer ids an engine writes
    with is asked while every worker is dead, so the spec says it: `MirrorSpec.producer_ids`.
    """

    @property
    def stale_leaders(self) -> bool:
        """The source's leaders have moved: whoever assigns partitions to threads should look."""
        ...

    def begin(self, assigned: Assigned, *, first_use: bool) -> P:
        """A partition that is new here. `first_use`: this process has written no gap marker under its claim yet."""
        ...

    def recover(self, partitions: Sequence[P]) -> Sequence[Phase | TanistError]:
        """Find out from both logs where each has to resume; the phase that each is in now, or what went wrong.

        COPY: it may be read and appended. FILL_START: call again at once. RECOVER: once more from the beginning.
        """
        ...

    def read(self, partitions: Sequence[P], *, hurry: bool) -> Incoming | None:
        """Ask for what comes next in the source; None: there was nothing to ask for, or nobody to ask.

        `hurry`: other work waits, so do not wait long for new records.
        """
        ...

    def append(self, partitions: Sequence[P], until: Callable[[], bool]) -> None:
        """Append what was taken, then collect answers until there are none left or `until` says that more came."""
        ...

    def idle(self, partitions: Sequence[P]) -> None:
        """Now and then, what no append would show: somebody else's writing, and a source that deleted records."""
        ...

    def report(self, partition: P, trouble: Trouble) -> Report:
        """What others may know of this partition now."""
        ...
