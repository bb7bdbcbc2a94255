"""The lock of a mirror, while it is held: only its holder may change the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


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
