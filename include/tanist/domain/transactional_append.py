"""When a transaction of a mirror goes on, how it ends, and who may begin the next one: a table.

Of a mirror that delivers at least once the batches are in no transaction, but of the same producer and epoch. Its
transactions hold positions alone, behind appends that were answered, so an abort has nothing to end.

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


class TxnPhase(StrEnum):
    """What the owner of a transactional id does next."""

    TAKE_OVER = "take over"
    """InitProducerId without an id: fences every other owner, and aborts what is open. Only who holds the lease."""
    RESUME = "resume"
    """Read, in this order: whether the mirror still copies; the positions in the fake group, stable; the map."""
    FENCE = "fence"
    """Abort an empty transaction on partitions that were copied outside of transactions. The marker keeps out what an
    earlier epoch still has on its way there: without a transaction no broker asks the coordinator about it. And on
    those that have lost the marker of an aborted one."""
    MARK = "mark"
    """Commit an empty transaction on partitions that have lost the marker of a committed one: it takes its place, for
    leaders end what the producer id has open."""
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


class TxnEvent(StrEnum):
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
    UNFENCED = "unfenced"
    """An earlier epoch may still append to a partition outside of transactions."""
    UNMARKED = "unmarked"
    """A partition has no marker behind what was committed. In an epoch that has just begun it was lost: coordinators
    give an epoch when all markers are written."""
    LEFT_OUT = "left out"
    """Every partition was refused before a transaction began."""
    NEW_EPOCH = "new epoch"
    """Nothing is open. The mirror delivers otherwise from now on, or a batch that was refused has left a sequence out.
    """


TABLE: Final[Mapping[tuple[TxnPhase, TxnEvent], TxnPhase]] = MappingProxyType(
    {
        (TxnPhase.TAKE_OVER, TxnEvent.DONE): TxnPhase.RESUME,
        (TxnPhase.TAKE_OVER, TxnEvent.REFUSED): TxnPhase.TAKE_OVER,
        (TxnPhase.TAKE_OVER, TxnEvent.UNANSWERED): TxnPhase.TAKE_OVER,
        (TxnPhase.TAKE_OVER, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.NEXT_EPOCH, TxnEvent.DONE): TxnPhase.RESUME,
        (TxnPhase.NEXT_EPOCH, TxnEvent.REFUSED): TxnPhase.ASK_LEASE,
        (TxnPhase.NEXT_EPOCH, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.NEXT_EPOCH, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.RESUME, TxnEvent.DONE): TxnPhase.APPEND,
        (TxnPhase.RESUME, TxnEvent.REFUSED): TxnPhase.RESUME,
        (TxnPhase.RESUME, TxnEvent.UNANSWERED): TxnPhase.RESUME,
        (TxnPhase.RESUME, TxnEvent.NOT_MIRRORED): TxnPhase.STOPPED,
        (TxnPhase.RESUME, TxnEvent.UNFENCED): TxnPhase.FENCE,
        (TxnPhase.RESUME, TxnEvent.UNMARKED): TxnPhase.MARK,
        (TxnPhase.FENCE, TxnEvent.DONE): TxnPhase.NEXT_EPOCH,
        (TxnPhase.FENCE, TxnEvent.REFUSED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.FENCE, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.FENCE, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.FENCE, TxnEvent.LEFT_OUT): TxnPhase.RESUME,
        (TxnPhase.MARK, TxnEvent.DONE): TxnPhase.NEXT_EPOCH,
        (TxnPhase.MARK, TxnEvent.REFUSED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.MARK, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.MARK, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.MARK, TxnEvent.LEFT_OUT): TxnPhase.RESUME,
        (TxnPhase.APPEND, TxnEvent.DONE): TxnPhase.POSITIONS,
        (TxnPhase.APPEND, TxnEvent.REFUSED): TxnPhase.ABORT,
        (TxnPhase.APPEND, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.APPEND, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.APPEND, TxnEvent.UNFENCED): TxnPhase.FENCE,
        (TxnPhase.APPEND, TxnEvent.UNMARKED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.APPEND, TxnEvent.NEW_EPOCH): TxnPhase.NEXT_EPOCH,
        (TxnPhase.POSITIONS, TxnEvent.DONE): TxnPhase.COMMIT,
        (TxnPhase.POSITIONS, TxnEvent.REFUSED): TxnPhase.ABORT,
        (TxnPhase.POSITIONS, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.POSITIONS, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.COMMIT, TxnEvent.DONE): TxnPhase.APPEND,
        (TxnPhase.COMMIT, TxnEvent.REFUSED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.COMMIT, TxnEvent.UNANSWERED): TxnPhase.COMMIT_AGAIN,
        (TxnPhase.COMMIT, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.COMMIT_AGAIN, TxnEvent.DONE): TxnPhase.NEXT_EPOCH,
        (TxnPhase.COMMIT_AGAIN, TxnEvent.REFUSED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.COMMIT_AGAIN, TxnEvent.UNANSWERED): TxnPhase.COMMIT_AGAIN,
        (TxnPhase.COMMIT_AGAIN, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.ABORT, TxnEvent.DONE): TxnPhase.NEXT_EPOCH,
        (TxnPhase.ABORT, TxnEvent.REFUSED): TxnPhase.NEXT_EPOCH,
        (TxnPhase.ABORT, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.ABORT, TxnEvent.FENCED): TxnPhase.ASK_LEASE,
        (TxnPhase.ASK_LEASE, TxnEvent.DONE): TxnPhase.TAKE_OVER,
        (TxnPhase.ASK_LEASE, TxnEvent.REFUSED): TxnPhase.ASK_LEASE,
        (TxnPhase.ASK_LEASE, TxnEvent.UNANSWERED): TxnPhase.ASK_LEASE,
        (TxnPhase.ASK_LEASE, TxnEvent.NOT_MIRRORED): TxnPhase.STOPPED,
    }
)


def after(phase: TxnPhase, event: TxnEvent) -> TxnPhase:
    """The next phase. `event` is one that can happen in it."""
    return TABLE[phase, event]
