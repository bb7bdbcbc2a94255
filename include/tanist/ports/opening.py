"""Who may write to a topic of the destination, once it takes over: everybody but the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline


class Opening(Protocol):
    """On the destination; per item, idempotent. Without an authorizer there is nothing to do, and all of it holds."""

    def has_authorizer(self, by: Deadline) -> bool: ...

    def open(
        self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        """Take WRITE from the mirror by name, make each topic's rules, take what keeps everybody off.

        `mirrors`: the principals that copy; where none is told, it is who this connection logs in as.
        """
        ...

    def is_open(
        self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, bool | TanistError]:
        """Whether each topic's rules are there, and nothing keeps everybody off."""
        ...

    def shut_out(
        self, topics: Sequence[str], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, bool | TanistError]:
        """Whether the mirror may not write to each topic any more: False without an authorizer, and for a super user.

        Where this connection's own login copies, that is what brokers say of it (KIP-430). Of any other principal only
        rules can be told: True is then that it is denied by name.
        """
        ...

    def others(
        self, topics: Sequence[str], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, frozenset[str]]:
        """Principals besides the mirror's that rules let write to each topic; nobody where there are no rules.

        Raises:
            ClusterAuthorizationFailed: rules are not told to us.
        """
        ...

    def principal(self) -> str | None:
        """As whom this connection logs in, as far as that is known."""
        ...

    def canary(self, mirror: MirrorName, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """Begin a transaction on one partition of each topic and abort it: two offsets that no reader ever sees."""
        ...
