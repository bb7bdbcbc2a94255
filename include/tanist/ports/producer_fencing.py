"""The barrier: what makes it impossible for a mirror ever to write to a partition again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.domain.recovery import ProducerIds
    from tanist.ports.clock import Deadline


class ProducerFence(StrEnum):
    """What the proof says: a batch of the old epoch with an impossible sequence is refused with 47 or with 45."""

    FENCED, OPEN = "sealed", "open"


class Kept(StrEnum):
    """Whether the barrier of a compacted partition outlives the cleaner, and a replica that comes back without it.

    The cleaner leaves of the marker an empty control batch, and whoever rebuilds its memory of producers from the log
    learns nothing from that one. Of a record it leaves an empty batch of data, which tells the epoch.
    """

    KEPT = "kept"
    """A record of the new epoch is there."""
    BARE = "bare"
    """The marker alone, and there are records."""
    EMPTY = "empty"
    """The marker alone, and no record that has a key: nothing could be repeated."""


class ProducerFencing(Protocol):
    """Idempotent, per item. On the destination; workers may be dead or alive."""

    def fence_producers(
        self, producer_ids: Mapping[TopicPartition, ProducerIds], by: Deadline
    ) -> Mapping[TopicPartition, DestinationOffset | TanistError]:
        """Put one marker of a higher epoch for the data id and one of the last epoch for the filler id.

        A partition that is sealed already gets nothing more. The answer is the committed end behind the barrier.
        """
        ...

    def proof(
        self, producer_ids: Mapping[TopicPartition, ProducerIds], by: Deadline
    ) -> Mapping[TopicPartition, ProducerFence | TanistError]:
        """Whether the old writer would be refused now; nothing is written by asking."""
        ...

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether the cleanup policy of each topic contains compact."""
        ...

    def kept(
        self, producer_ids: Mapping[TopicPartition, ProducerIds], by: Deadline
    ) -> Mapping[TopicPartition, Kept | TanistError]:
        """Of partitions of compacted topics that are sealed; nothing is written by asking."""
        ...

    def keep(
        self, producer_ids: Mapping[TopicPartition, ProducerIds], by: Deadline, *, rest: float = 0
    ) -> Mapping[TopicPartition, Kept | TanistError]:
        """Add the last key and value again in the new epoch of the data id, where that is missing.

        For sealed partitions; once is enough, a second time adds nothing. `rest`: seconds for which a log must not have
        grown between two calls, 0 where nobody else can write; one that has is still BARE. Errors that are not
        retriable: it cannot be added (a right is missing, the record is too large).
        """
        ...
