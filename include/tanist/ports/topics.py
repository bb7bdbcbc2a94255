"""Topics, partitions and their configurations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as its cluster describes it.

    `configs`: those set on the topic itself. `effective`: all configs in effect, with defaults; its names are all topic
    configs that this version of Kafka has.
    """

    name: str
    topic_id: str
    internal: bool
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    effective: Mapping[str, str] = field(default_factory=dict)


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

    def describe(self, names: Sequence[str], by: Deadline) -> Mapping[str, TopicFacts | TanistError]:
        """The facts of each topic; UnknownTopicOrPartition if it does not exist."""
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

    def alter_configs(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        """Set single configs of a topic, or delete those with None; the others stay. None: done."""
        ...
