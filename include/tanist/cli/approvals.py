"""What an approver hears of an approval that was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.cli.output import say

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Approval


def say_unread(approval: Approval) -> None:
    """A warning where it could not be read back; it is written, and a run may use it."""
    if approval.unread:
        say(f"warning: it is written (approval {approval.id}), but could not be read back: {approval.unread}")
