"""The interface of an engine, which copies records.

Thread, assignment, states and offset map are common to all engines.
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
    """The phase of a partition; only the fetcher thread changes it."""

    RECOVER = auto()
    """Both logs must be read before anything is written."""
    FILL_START = auto()
    """The destination is filled up to the source's log start, one chunk per call of `recover`."""
    COPY = auto()
    BROKEN = auto()
    """FAILED; only an operator can change that."""


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
    """A fetch that was sent by `read`."""

    def ready(self) -> bool:
        """Whether `take` would return soon."""
        ...

    def take(self) -> None:
        """Wait for an answer, but not long, and decide for each batch what to do.

        Partitions that were halted meanwhile are skipped. What has not been answered is taken after a later `read`.
        """
        ...


class Trouble(Protocol):
    """The thread's knowledge of a partition that goes into its report."""

    @property
    def finding(self) -> Finding | None: ...
    @property
    def error(self) -> TanistError | None: ...
    @property
    def failing_since(self) -> float | None: ...


P = TypeVar("P", bound=EnginePartition)


class CopyEngine(Protocol[P]):
    """Copies the partitions of one thread. Methods take several partitions, because one request carries many.

    An error of one partition halts only that one; only `Stopped` is raised. The writer identity of an engine must be
    known while all workers are down, so it is in the spec: `MirrorSpec.writer`.
    """

    @property
    def stale_leaders(self) -> bool:
        """Whether leaders of the source have moved, so that partitions should be assigned again."""
        ...

    def begin(self, assigned: Assigned, *, first_use: bool) -> P:
        """Add a partition. `first_use`: this process has written no gap marker under its claim yet."""
        ...

    def prepare(self, partitions: Sequence[P]) -> None:
        """Before it is read whether these partitions may be copied: what must have begun before that."""
        ...

    def recover(self, partitions: Sequence[P]) -> Sequence[Phase | TanistError]:
        """Derive from both logs where each partition resumes; returns its phase, or its error.

        COPY: it may be read and appended. FILL_START: call again at once. RECOVER: start over.
        """
        ...

    def read(self, partitions: Sequence[P], *, hurry: bool) -> Incoming | None:
        """See to it that these are being fetched, beside those that rest; None: nothing is, or there is no connection.

        `hurry`: other work waits, so do not wait long for new records.
        """
        ...

    def leave(self, partitions: Sequence[P]) -> None:
        """Read these no more: they recover, drain, or are no longer assigned."""
        ...

    def rests(self, partition: P) -> bool:
        """Whether nothing has to be done for it until it has news: it need not be given to each call until then."""
        ...

    def news(self) -> Sequence[P]:
        """Partitions that rested, and have had news since this was last called."""
        ...

    def append(self, partitions: Sequence[P], until: Callable[[], bool]) -> None:
        """Append what was taken, then collect answers until none are left or `until` returns True."""
        ...

    def idle(self, partitions: Sequence[P], *, whole: bool) -> None:
        """From time to time check what no append would show: foreign writes, and deletions at the source.

        `whole`: these are all partitions of the thread, and not only those that do not rest.
        """
        ...

    def report(self, partition: P, trouble: Trouble) -> Report:
        """The current report of this partition."""
        ...
