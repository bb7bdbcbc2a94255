"""The state topics: compacted topics as databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline


class Locked(Protocol):
    """Returned by whoever took the lock; valid until another command takes it over."""

    def view(self) -> StateView:
        """The current state, read to the end of the state topic."""
        ...

    def append(self, records: Sequence[StateRecord]) -> StateView:
        """Write `records` in one transaction and return the view that contains them.

        Raises:
            MirrorLocked: another command has taken the lock; nothing was written.
        """
        ...

    def confirm(self) -> None:
        """Call it directly before every action that Kafka does not fence (ACLs, configs, markers).

        Raises:
            MirrorLocked: another command has taken the lock.
        """
        ...


class StateStore(Protocol):
    """One compacted topic, folded into a view by a reader thread of its own. Thread-safe."""

    def view(self) -> StateView:
        """The latest view, immutable and perhaps outdated; no I/O."""
        ...

    def ended(self) -> TanistError | None:
        """The error that ended reading permanently: the view no longer changes. None: the topic is being read."""
        ...

    def catch_up(self, by: Deadline) -> StateView:
        """A view that contains everything that was in the topic at the time of the call.

        It waits for the position and not for the last record: the log may end with a transaction marker.

        Raises:
            TimedOut, Unreachable: the end was not reached, so the current state is unknown.
        """
        ...

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        """Write `records` (atomically where this store is an operator's) and return the view that contains them.

        Raises:
            OperatorFenced: another command has opened this mirror for changes since; nothing was written.
            AuthorizationFailed: names the topic and the missing permission.
            TimedOut: it is not known whether they were written.
        """
        ...

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        """Every record from the beginning in the order read, then new ones until `by` (None: for ever)."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...
