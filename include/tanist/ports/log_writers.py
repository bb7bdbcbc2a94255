"""Who has written the logs of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.log_writers import LogWriters
    from tanist.domain.names import DestinationOffset, TopicPartition
    from tanist.domain.recovery import ProducerIds
    from tanist.ports.clock import Deadline


class LogInspection(Protocol):
    """On one cluster. Changes nothing."""

    def writers(
        self, partitions: Collection[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogWriters | TanistError]:
        """The writers of each log; one item for each partition. Needs a fetch."""
        ...

    def reserve_ends(
        self, old_ends: Mapping[TopicPartition, DestinationOffset], producer_ids: ProducerIds, by: Deadline
    ) -> Mapping[TopicPartition, DestinationOffset | TanistError]:
        """The offset of the last producer fence of a mirror behind `old_ends`, or of the first batch of another writer.

        The committed end if there is neither. Needs a fetch.
        """
        ...
