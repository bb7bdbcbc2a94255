"""Who has written the logs of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.log_writers import LogWriters
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


class LogInspection(Protocol):
    """On one cluster. Changes nothing."""

    def writers(
        self, partitions: Collection[TopicPartition], by: Deadline
    ) -> Mapping[TopicPartition, LogWriters | TanistError]:
        """The writers of each log; one item for each partition. Needs a fetch."""
        ...
