"""The topic of approvals: append-only, LogAppendTime; with an authorizer only approvers may write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Approval, ApprovalRequest, Entry, Withdrawal
    from tanist.domain.names import EpochMs
    from tanist.ports.clock import Deadline


class Approvals(Protocol):
    """Approvals of failovers, at the destination. Rejections are records of the same topic."""

    def principal(self, by: Deadline) -> str:
        """Our principal without `User:`; without an authorizer UNPROTECTED:<user of this host>.

        Raises:
            PrincipalUnknown: there is an authorizer, and the principal of this login is not known.
        """
        ...

    def exists(self, by: Deadline) -> bool:
        """Whether the topic exists."""
        ...

    def create(self, by: Deadline) -> None:
        """Create the topic.

        Raises:
            AuthorizationFailed: this login has no CREATE.
        """
        ...

    def all(self, by: Deadline) -> tuple[Entry, ...]:
        """All entries of the topic in log order; records that cannot be decoded are left out.

        Raises:
            NoApproverTopic: the topic does not exist; the message has the command that creates it.
            UnsafeStateTopic: records may expire, or their timestamps are not LogAppendTime.
        """
        ...

    def brokers_time(self, by: Deadline) -> EpochMs | None:
        """When the brokers appended an operator's last change to `__mirror_state`, ms since 1970 by their own clock.

        None: no such append is known. To learn the current time of the brokers, write first.
        """
        ...

    def append(self, request: ApprovalRequest, by: Deadline) -> Approval:
        """Write an approval as our principal, or on behalf of the request's `signature`, and read it back.

        What brokers have acknowledged is written: if it cannot be read back, the answer says why (`unread`). If nobody
        has acknowledged it, the answer is what is in the topic.

        Raises:
            Misconfigured: the name of the approver is not valid.
            NoApproverTopic: the topic does not exist.
            AuthorizationFailed: this login is not an approver; nothing was written.
            TimedOut: not acknowledged, and not in the topic.
        """
        ...

    def withdraw(self, no: Withdrawal, by: Deadline) -> None:
        """Write a rejection as our principal.

        Raises:
            NoApproverTopic: the topic does not exist.
            AuthorizationFailed: this login is not an approver; nothing was written.
        """
        ...
