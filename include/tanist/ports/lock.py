"""The lock of a mirror, held: what may be changed only by one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


class Locked(Protocol):
    def view(self) -> StateView:
        """The state topic as it is now."""
        ...

    def append(self, records: Sequence[StateRecord]) -> StateView:
        """Write `records` in one transaction and return the view that contains them.

        Raises:
            MirrorLocked: somebody else holds the lock by now; nothing was written.
        """
        ...

    def confirm(self) -> None:
        """To be called directly before every action that Kafka does not fence by itself.

        Raises:
            MirrorLocked: somebody else holds the lock by now.
        """
        ...
