"""Topics, their partitions, configurations and sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import BrokerId, TopicPartition
    from tanist.ports.clock import Deadline


class Configs(Protocol):
    """The brokers' configs of one cluster."""

    def broker(self, by: Deadline) -> Mapping[str, str]:
        """Every config in effect on one broker, by name.

        Raises:
            ClusterAuthorizationFailed: DESCRIBE_CONFIGS on the cluster is missing.
        """
        ...

    def each_broker(
        self, names: Collection[str], by: Deadline
    ) -> Mapping[BrokerId, Mapping[str, str | None] | TanistError]:
        """By broker that is alive, those of `names` that are set there (None: its value is hidden), or the error.

        A config that has a default is always set; one that only an authorizer knows is set if the broker's file has it.
        """
        ...

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        """Set a dynamic config of all brokers (the cluster-wide default); the error, or None: done."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as its cluster describes it.

    `configs`: those set on the topic itself. `effective`: all configs in effect, with defaults; its names are all topic
    configs that this version of Kafka has. `leaders`: of each partition; None: it has none now. `in_sync`: how many
    replicas of each partition are in sync; 0 without a leader.
    """

    name: str
    topic_id: str
    internal: bool
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    effective: Mapping[str, str] = field(default_factory=dict)
    leaders: tuple[BrokerId | None, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `configs`: those to set on the topic itself."""

    name: str
    partitions: int
    replication_factor: int | None
    """None: the broker's default."""
    configs: Mapping[str, str] = field(default_factory=dict)


class Topics(Protocol):
    """Of one cluster. Mappings have one item for each topic, a value or an error."""

    def cluster_id(self, by: Deadline) -> str:
        """The id that the brokers report."""
        ...

    def names(self, by: Deadline) -> tuple[str, ...]:
        """Names of all topics that this login may DESCRIBE, sorted, without internal ones."""
        ...

    def describe(
        self, names: Sequence[str], by: Deadline, configs: Collection[str] | None = None
    ) -> Mapping[str, TopicFacts | TanistError]:
        """The facts of each topic; UnknownTopicOrPartition if it does not exist.

        `configs`: which of them the facts have, at least one; None: all. Brokers take longest to tell all of them.
        """
        ...

    def partitions(self, names: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        """The number of partitions of each topic. It needs only DESCRIBE, and half the requests of `describe`."""
        ...

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        """Create topics and wait until all brokers know a leader of every partition; None: done."""
        ...

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        """Add partitions up to the number `partitions`, and wait until all have a leader; None: done."""
        ...

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], by: Deadline
    ) -> Mapping[str, TanistError | None]:
        """Set single configs of topics, or delete those with None; the others stay. Of each topic all or nothing.

        By topic; None: done.
        """
        ...


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
