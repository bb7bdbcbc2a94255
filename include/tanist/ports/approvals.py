"""The approvers' topic: append-only, in the brokers' time, writable by approvers only where there is an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval, ApprovalRequest, Entry, Withdrawal
    from tanist.domain.names import EpochMs
    from tanist.ports.clock import Deadline


class Approvals(Protocol):
    """On the destination."""

    def principal(self, by: Deadline) -> str:
        """Who we are to the brokers, without `User:`; UNPROTECTED:<user of this host> where there is no authorizer.

        Raises:
            PrincipalUnknown: there is one, and nobody says who we are to it.
        """
        ...

    def exists(self, by: Deadline) -> bool: ...

    def create(self, by: Deadline) -> None:
        """Make the topic.

        Raises:
            AuthorizationFailed: we may not.
        """
        ...

    def all(self, by: Deadline) -> tuple[Entry, ...]:
        """Everything in the topic, in the order in which it was written; what cannot be read is left out.

        Raises:
            NoApproverTopic: with the command that makes it.
            UnsafeStateTopic: it forgets, or its time is not the brokers'.
        """
        ...

    def brokers_time(self, by: Deadline) -> EpochMs | None:
        """When the brokers took the last change that an operator made to `__mirror_state`, by their own clock.

        None: they remember none. Whoever wants to know what time it is there writes first.
        """
        ...

    def append(self, request: ApprovalRequest, by: Deadline) -> Approval:
        """Write as our principal, and for whom where the request says so (`signature`), and read back.

        Raises:
            Misconfigured: nobody can approve under that name.
            NoApproverTopic. AuthorizationFailed: we are no approver, nothing was written.
        """
        ...

    def withdraw(self, no: Withdrawal, by: Deadline) -> None:
        """Write it as our principal.

        Raises:
            NoApproverTopic. AuthorizationFailed: we are no approver, nothing was written.
        """
        ...
