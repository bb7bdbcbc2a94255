"""What an earlier try of a gate may have written, or is about to: its process may live on after it was given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.failover.approving import NoApproverTopic, answer_to

if TYPE_CHECKING:
    from tanist.domain.failover.approving import Entry
    from tanist.domain.names import MirrorName
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

_LOOK_SECONDS: Final = 2.0


def earlier_answer(
    destination: Cluster, mirror: MirrorName, request: str, command: CommandContext, seconds: float
) -> Entry | None:
    """The answer to `request` that is on record, or comes within `seconds`; None: there is none.

    Raises:
        CouldNotTell, BrokerError: the topic of approvals cannot be read.
    """
    until = command.clock.deadline(seconds)
    while True:
        try:
            found = answer_to(destination.approvals.all(command.by), mirror, request)
        except NoApproverTopic:
            found = None
        if found is not None or not (left := until.left(command.clock.monotonic())):
            return found
        command.clock.wait(min(_LOOK_SECONDS, left))
