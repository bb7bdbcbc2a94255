"""The barrier: what makes it impossible for a mirror ever to write to a partition again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.anchoring import Writers
    from tanist.domain.errors import TanistError
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.ports.clock import Deadline


class Barrier(StrEnum):
    """What the proof says: a batch of the old epoch with an impossible sequence is refused with 47 or with 45."""

    SEALED, OPEN = "sealed", "open"


class Sealing(Protocol):
    """Idempotent, per item. On the destination; workers may be dead or alive."""

    def seal(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline
    ) -> Mapping[TopicPartition, DestinationOffset | TanistError]:
        """Put one marker of a higher epoch for the data id and one of the last epoch for the filler id.

        A partition that is sealed already gets nothing more. The answer is the committed end behind the barrier.
        """
        ...

    def proof(
        self, writers: Mapping[TopicPartition, Writers], by: Deadline
    ) -> Mapping[TopicPartition, Barrier | TanistError]:
        """Whether the old writer would be refused now; nothing is written by asking."""
        ...

    def close(self) -> None: ...
