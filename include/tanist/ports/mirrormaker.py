"""The topics in which MirrorMaker 2 keeps what it knows about its copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tanist.domain.mirrormaker.records import CheckpointEvent, HeartbeatEvent, SyncEvent, TopicRead
    from tanist.ports.clock import Deadline


class MirrorMakerTopics(Protocol):
    """Of one cluster. A topic is read to its end, and from its beginning where nothing else is said.

    Needs READ and DESCRIBE, and changes nothing. Partition 0 only: MM2 writes to no other.
    What cannot be decoded is an event with a reason, never an error.

    Raises, each of them:
        UnknownTopicOrPartition: there is no such topic. TopicAuthorizationFailed. TimedOut: not read by the deadline.
        CouldNotTell, BrokerError, CorruptBatch, UnsupportedBatch: it cannot be read to its end.
    """

    def offset_syncs(self, topic: str, by: Deadline) -> TopicRead[SyncEvent]:
        """A topic of offset-syncs."""
        ...

    def checkpoints(self, topic: str, by: Deadline) -> TopicRead[CheckpointEvent]:
        """A topic of checkpoints."""
        ...

    def heartbeats(self, topic: str, by: Deadline) -> TopicRead[HeartbeatEvent]:
        """A topic of heartbeats: the last ones at least, not all of them. MM2 writes one each second."""
        ...
