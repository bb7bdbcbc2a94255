"""When a transaction of a mirror goes on, how it ends, and who may begin the next one: a table.

The broker remembers the last batches of a producer epoch also after its transaction was aborted, and compares nothing
but id and epoch at the end of a transaction (ProducerStateEntry.findDuplicateBatch, TransactionCoordinator). So after
an abort, and after any request without an answer, nothing more is sent in that epoch.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Phase(StrEnum):
    """What the owner of a transactional id does next."""

    TAKE_OVER = "take over"
    """InitProducerId without an id: fences every other owner, and aborts what is open. Only who holds the lease."""
    RESUME = "resume"
    """Read, in this order: whether the mirror still copies; the positions in the fake group, stable; the map."""
    APPEND = "append"
    """Add partitions, then append to them; sequences begin at 0 in a new epoch."""
    POSITIONS = "positions"
    """Every append was answered: the positions of the fake group join the transaction."""
    COMMIT = "commit"
    COMMIT_AGAIN = "commit again"
    """The first end had no answer. Asked again it has the same effect, and a late copy of it may still arrive."""
    ABORT = "abort"
    """Every request was answered, and one was refused."""
    NEXT_EPOCH = "next epoch"
    """InitProducerId as the same owner: whatever is still on its way in the old epoch is refused."""
    ASK_LEASE = "ask lease"
    """Somebody has fenced this owner; or the broker has, because the transaction was too old."""
    STOPPED = "stopped"


class Event(StrEnum):
    """What has happened."""

    DONE = "done"
    """Every request of the phase was answered, none was refused."""
    REFUSED = "refused"
    """Every request was answered, at least one with an error that ends the transaction."""
    UNANSWERED = "unanswered"
    """At least one request has no answer: it may arrive at any time."""
    FENCED = "fenced"
    """PRODUCER_FENCED or INVALID_PRODUCER_EPOCH."""
    NOT_MIRRORED = "not mirrored"
    """The state says that the mirror does not copy any more, or the lease is another's."""


TABLE: Final[Mapping[tuple[Phase, Event], Phase]] = MappingProxyType(
    {
        (Phase.TAKE_OVER, Event.DONE): Phase.RESUME,
        (Phase.TAKE_OVER, Event.REFUSED): Phase.TAKE_OVER,
        (Phase.TAKE_OVER, Event.UNANSWERED): Phase.TAKE_OVER,
        (Phase.TAKE_OVER, Event.FENCED): Phase.ASK_LEASE,
        (Phase.NEXT_EPOCH, Event.DONE): Phase.RESUME,
        (Phase.NEXT_EPOCH, Event.REFUSED): Phase.ASK_LEASE,
        (Phase.NEXT_EPOCH, Event.UNANSWERED): Phase.ASK_LEASE,
        (Phase.NEXT_EPOCH, Event.FENCED): Phase.ASK_LEASE,
        (Phase.RESUME, Event.DONE): Phase.APPEND,
        (Phase.RESUME, Event.REFUSED): Phase.RESUME,
        (Phase.RESUME, Event.UNANSWERED): Phase.RESUME,
        (Phase.RESUME, Event.NOT_MIRRORED): Phase.STOPPED,
        (Phase.APPEND, Event.DONE): Phase.POSITIONS,
        (Phase.APPEND, Event.REFUSED): Phase.ABORT,
        (Phase.APPEND, Event.UNANSWERED): Phase.ASK_LEASE,
        (Phase.APPEND, Event.FENCED): Phase.ASK_LEASE,
        (Phase.POSITIONS, Event.DONE): Phase.COMMIT,
        (Phase.POSITIONS, Event.REFUSED): Phase.ABORT,
        (Phase.POSITIONS, Event.UNANSWERED): Phase.ASK_LEASE,
        (Phase.POSITIONS, Event.FENCED): Phase.ASK_LEASE,
        (Phase.COMMIT, Event.DONE): Phase.APPEND,
        (Phase.COMMIT, Event.REFUSED): Phase.NEXT_EPOCH,
        (Phase.COMMIT, Event.UNANSWERED): Phase.COMMIT_AGAIN,
        (Phase.COMMIT, Event.FENCED): Phase.ASK_LEASE,
        (Phase.COMMIT_AGAIN, Event.DONE): Phase.NEXT_EPOCH,
        (Phase.COMMIT_AGAIN, Event.REFUSED): Phase.NEXT_EPOCH,
        (Phase.COMMIT_AGAIN, Event.UNANSWERED): Phase.COMMIT_AGAIN,
        (Phase.COMMIT_AGAIN, Event.FENCED): Phase.ASK_LEASE,
        (Phase.ABORT, Event.DONE): Phase.NEXT_EPOCH,
        (Phase.ABORT, Event.REFUSED): Phase.NEXT_EPOCH,
        (Phase.ABORT, Event.UNANSWERED): Phase.ASK_LEASE,
        (Phase.ABORT, Event.FENCED): Phase.ASK_LEASE,
        (Phase.ASK_LEASE, Event.DONE): Phase.TAKE_OVER,
        (Phase.ASK_LEASE, Event.REFUSED): Phase.ASK_LEASE,
        (Phase.ASK_LEASE, Event.UNANSWERED): Phase.ASK_LEASE,
        (Phase.ASK_LEASE, Event.NOT_MIRRORED): Phase.STOPPED,
    }
)


def after(phase: Phase, event: Event) -> Phase:
    """The next phase. `event` is one that can happen in it."""
    return TABLE[phase, event]
