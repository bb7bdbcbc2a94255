"""Permissions of our login, as the cluster itself reports them, and the opening of topics to others."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.checks import Verdict
from tanist.domain.rights import Permission

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.errors import TanistError
    from tanist.domain.logins import LoginSeen
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline


__all__ = ["Access", "AclCheck", "Permission", "Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCheck:
    """Whether a permission is granted: PASS, FAIL or UNKNOWN, with a reason."""

    permission: Permission
    verdict: Verdict
    reason: str = ""


class Access(Protocol):
    """The permissions of one connection's login on its cluster."""

    def check(self, rights: Sequence[Permission], by: Deadline) -> tuple[AclCheck, ...]:
        """Whether each permission is granted, from the authorized operations that the brokers report (KIP-430).

        UNKNOWN if the brokers do not report it. A cluster without an authorizer grants everything.
        """
        ...

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        """Our principal, and whether a DENY for it would not stop this login from writing to `topics` (a super user).

        Raises:
            ClusterAuthorizationFailed: this login may not DESCRIBE the cluster, so ACLs are not reported.
            PrincipalUnknown: the principal is not configured and cannot be derived from the login.
        """
        ...


NOBODY: Final[Mapping[str, Collection[str]]] = MappingProxyType({})


class Opening(Protocol):
    """On the destination. Idempotent; one item for each topic. Without an authorizer `open` does nothing.

    `mirrors`: the principals that workers log in as; if empty, the principal of this connection.
    """

    def has_authorizer(self, by: Deadline) -> bool:
        """Whether the cluster enforces ACLs."""
        ...

    def open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, TanistError | None]:
        """Add a DENY of WRITE for the mirror, create the ACLs given for each topic, remove a DENY for everybody.

        `denied`: by topic, principals that `deny` or `close` has denied; these DENY ACLs are removed, too, except those
        that are among the ACLs given for the topic.
        """
        ...

    def deny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        """Deny WRITE on each topic to the principals given for it."""
        ...

    def undeny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        """The inverse of `deny`: remove exactly these DENY ACLs; one that does not exist is no error."""
        ...

    def give(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        """Create these ACLs of WRITE on the name of each topic; one that exists is no error."""
        ...

    def take_back(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        """The inverse of `give`: delete exactly these ACLs; one that does not exist is no error."""
        ...

    def close(
        self, topics: Mapping[str, Collection[str]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        """Deny WRITE on each topic to the principals given for it, and remove a DENY for the mirror."""
        ...

    def is_open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, bool | TanistError]:
        """Whether the ACLs given for each topic exist, and no DENY of WRITE applies to everybody or to `denied`.

        `authorizer`: the answer of `has_authorizer`; None: the cluster is asked.
        """
        ...

    def shut_out(
        self,
        topics: Sequence[str],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
    ) -> Mapping[str, bool | TanistError]:
        """Whether the mirror may no longer write to each topic; False without an authorizer, and for a super user.

        If this connection has the login of the workers, the brokers report it (KIP-430). For another principal only
        ACLs can be checked: True then means that a DENY names it. `authorizer`: as for `is_open`.
        """
        ...

    def principal(self) -> str | None:
        """The principal of this connection (`User:...`); None: unknown."""
        ...

    def canary(self, mirror: MirrorName, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """Begin a transaction on one partition of each topic and abort it: two offsets that no consumer sees."""
        ...
