"""Who may write to a topic of the destination, once it takes over: everybody but the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


class Opening(Protocol):
    """On the destination; per item, idempotent. Without an authorizer there is nothing to do, and all of it holds."""

    def has_authorizer(self, by: Deadline) -> bool: ...

    def open(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """Take WRITE from the mirror's principal (ours), and what keeps everybody else off."""
        ...

    def is_open(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]: ...

    def canary(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """Begin a transaction on one partition of each topic and abort it: two offsets that no reader ever sees."""
        ...

    def close(self) -> None: ...
