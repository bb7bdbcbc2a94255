"""The state topics: compacted topics as databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline


class StateStore(Protocol):
    """One compacted topic. Thread-safe: a reader of its own follows the topic."""

    def view(self) -> StateView:
        """The last folded view, frozen; costs nothing."""
        ...

    def ended(self) -> TanistError | None:
        """What ended the reading for good: the view is that of then, whatever happens. None: it is being read."""
        ...

    def catch_up(self, by: Deadline) -> StateView:
        """The view once everything that was in the topic at the time of the call has been read.

        Position reaches the end offset; "last record seen" would never be true behind a marker.

        Raises:
            TimedOut, Unreachable: the end was not reached; the old view says nothing about now.
        """
        ...

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        """Write `records` (atomically where this store is an operator's) and return the view that contains them.

        Raises:
            OperatorFenced: somebody else opened the same mirror for changes after us; nothing was written.
            AuthorizationFailed: naming the topic and the right.
            TimedOut: it is not known whether they were written.
        """
        ...

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        """Every record from the beginning in the order read, then live ones until `by` (None: for ever)."""
        ...

    def close(self) -> None: ...
