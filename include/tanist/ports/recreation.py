"""Topics that are deleted and created again at an old source, and what it costs to copy them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


class TopicDeletion(Protocol):
    """At one cluster."""

    def delete(self, topic: str, topic_id: str, by: Deadline) -> TanistError | None:
        """Delete exactly the topic with this id; None: it is deleted, or was before. `by`: until when it may be sent.

        Returns UnsupportedVersion where brokers do not delete by id (below 2.8), AuthorizationFailed without DELETE.

        Raises:
            CouldNotTell: no answer; it may be deleted nevertheless.
        """
        ...


class LogSizes(Protocol):
    """At one cluster."""

    def sizes(self, partitions: Sequence[TopicPartition], by: Deadline) -> dict[TopicPartition, int]:
        """Bytes of the log of each partition, one replica, as it lies on disk; those that are unknown are left out."""
        ...
