"""What our principal may do, asked of the cluster itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tanist.domain.checks import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.logins import LoginSeen
    from tanist.ports.clock import Deadline

__all__ = ["Access", "AclCheck", "Permission", "Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One right, as Kafka names it: operation on a resource. `needed_for` says what fails without it."""

    operation: str
    resource_type: str
    resource: str
    needed_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCheck:
    permission: Permission
    verdict: Verdict
    reason: str = ""


class Access(Protocol):
    def check(self, rights: Sequence[Permission], by: Deadline) -> tuple[AclCheck, ...]:
        """Whether each right is held, from the authorized operations that the brokers report (KIP-430).

        UNKNOWN where the cluster does not say; a cluster without an authorizer grants everything.
        """
        ...

    def write_rules(self, topics: Sequence[str], by: Deadline) -> Mapping[str, tuple[AclEntry, ...] | None]:
        """Who may write to each topic; nothing where there is no authorizer, None where everybody is kept off now.

        Raises:
            ClusterAuthorizationFailed: rules are not told to us.
        """
        ...

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        """Who we are there, and whether something says that a DENY by that name would not keep us off `topics`.

        Raises:
            ClusterAuthorizationFailed: rules are not told to us. PrincipalUnknown: nobody says who we are.
        """
        ...
