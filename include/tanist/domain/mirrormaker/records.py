"""The records of MirrorMaker 2's own topics, and how these topics are called (KIP-382, connect/mirror)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tanist.domain.names import EpochMs

if TYPE_CHECKING:
    from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition

DEFAULT_SEPARATOR: Final = "."
HEARTBEATS: Final = "heartbeats"

_T = TypeVar("_T")


class OffsetSync(NamedTuple):
    """The destination has acknowledged the source record `upstream` at `downstream`."""

    partition: SourcePartition
    upstream: SourceOffset
    downstream: DestinationOffset


class Checkpoint(NamedTuple):
    """MM2's translation of a committed offset of a group. `partition`: of the copy."""

    group: str
    partition: MirrorPartition
    upstream: SourceOffset
    downstream: DestinationOffset
    metadata: str


class Heartbeat(NamedTuple):
    """MM2 was alive `at` this time, by its own clock, and could write to `target`. Both are aliases of clusters."""

    source: str
    target: str
    at: EpochMs


class SyncsDeleted(NamedTuple):
    """A tombstone: nobody but a person writes one. What the topic said of `partition` before does not count."""

    partition: SourcePartition


class CheckpointDeleted(NamedTuple):
    """A tombstone of the checkpoint of a group."""

    group: str
    partition: MirrorPartition


class HeartbeatDeleted(NamedTuple):
    """A tombstone of a heartbeat."""

    source: str
    target: str


class Undecodable(NamedTuple):
    """A record that is not as MM2 writes it. `why`: without its bytes, so that equal reasons can be counted."""

    why: str


SyncEvent: TypeAlias = OffsetSync | SyncsDeleted | Undecodable
CheckpointEvent: TypeAlias = Checkpoint | CheckpointDeleted | Undecodable
HeartbeatEvent: TypeAlias = Heartbeat | HeartbeatDeleted | Undecodable


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead(Generic[_T]):
    """One of MM2's topics, read from its beginning to its end. `events`: in its order.

    `start`: where its log begins. `compacted`: its cleanup.policy is exactly "compact", so that a log start above 0
    does not mean that something was lost. `written_at`: the time of its last record, 0: it has none.
    """

    topic: str
    events: tuple[_T, ...]
    start: int
    compacted: bool
    written_at: EpochMs = EpochMs(0)  # noqa: RUF009


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfMirrorMaker:
    """How MM2 names its topics, from the aliases of both clusters in its configuration.

    `separator`: DefaultReplicationPolicy takes `replication.policy.separator` for internal topics too, unless
    `replication.policy.internal.topic.separator.enabled` is false.
    """

    source_alias: str
    destination_alias: str
    separator: str = DEFAULT_SEPARATOR

    @property
    def syncs_at_source(self) -> str:
        """The topic of offset-syncs at the source, where it is by default: named after the other cluster."""
        return self._syncs(self.destination_alias)

    @property
    def syncs_at_destination(self) -> str:
        """The same with `offset-syncs.topic.location=target`."""
        return self._syncs(self.source_alias)

    @property
    def checkpoints(self) -> str:
        """At the destination."""
        return self.separator.join((self.source_alias, "checkpoints", "internal"))

    def _syncs(self, other: str) -> str:
        return self.separator.join(("mm2-offset-syncs", other, "internal"))


def is_syncs_topic(name: str) -> bool:
    """Whether a topic is called as one of offset-syncs, whatever the aliases."""
    return name.startswith("mm2-offset-syncs") and name.endswith("internal")


def is_checkpoints_topic(name: str) -> bool:
    """Whether a topic is called as one of checkpoints, whatever the aliases."""
    return name.endswith("internal") and "checkpoints" in name
