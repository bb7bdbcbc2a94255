"""Who may write to a topic of the destination, once it takes over: everybody but the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.write_rules import WriteRule
    from tanist.ports.clock import Deadline


class Opening(Protocol):
    """On the destination; per item, idempotent. Without an authorizer there is nothing to do, and all of it holds."""

    def has_authorizer(self, by: Deadline) -> bool: ...

    def open(self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline) -> Mapping[str, TanistError | None]:
        """Take WRITE from the mirror's principal (ours), make each topic's rules, take what keeps everybody off."""
        ...

    def is_open(self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether all of that has been done to each topic."""
        ...

    def canary(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """Begin a transaction on one partition of each topic and abort it: two offsets that no reader ever sees."""
        ...

    def close(self) -> None: ...
