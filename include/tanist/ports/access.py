"""Permissions of our login, as the cluster itself reports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tanist.domain.checks import Verdict
from tanist.domain.rights import Permission

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.logins import LoginSeen
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

    def write_rules(self, topics: Sequence[str], by: Deadline) -> Mapping[str, tuple[AclEntry, ...] | None]:
        """By topic, the ACLs for writing; empty without an authorizer, None while everybody is denied WRITE.

        Raises:
            ClusterAuthorizationFailed: this login may not DESCRIBE the cluster, so ACLs are not reported.
        """
        ...

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        """Our principal, and whether a DENY for it would not stop this login from writing to `topics` (a super user).

        Raises:
            ClusterAuthorizationFailed: this login may not DESCRIBE the cluster, so ACLs are not reported.
            PrincipalUnknown: the principal is not configured and cannot be derived from the login.
        """
        ...
