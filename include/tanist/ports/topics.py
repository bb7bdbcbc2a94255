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

    `configs` holds only what was set on the topic itself; `effective` all that applies to it, whoever set it: its names
    are all that this cluster knows.
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
    name: str
    partitions: int
    replication_factor: int | None
    """None: the broker's default."""
    configs: Mapping[str, str] = field(default_factory=dict)


class Topics(Protocol):
    """Every call answers per item: a failed topic never hides the others."""

    def cluster_id(self, by: Deadline) -> str: ...

    def names(self, by: Deadline) -> tuple[str, ...]:
        """Names of all topics we may see, internal ones left out, sorted."""
        ...

    def describe(self, names: Sequence[str], by: Deadline) -> Mapping[str, TopicFacts | TanistError]:
        """Facts per name; UnknownTopicOrPartition where there is no such topic."""
        ...

    def partitions(self, names: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        """How many partitions each has; as `describe`, but DESCRIBE is enough, and it is half the work."""
        ...

    def create(
        self, topics: Sequence[NewTopic], by: Deadline, *, validate_only: bool = False
    ) -> Mapping[str, TanistError | None]:
        """Create and wait until every partition has a leader that all brokers know; None: it is there."""
        ...

    def grow(self, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        """Add partitions until there are so many, and wait until all have a leader; None: they are there."""
        ...

    def alter_configs(self, topic: str, changes: Mapping[str, str | None], by: Deadline) -> TanistError | None:
        """Set (or with None delete) single configs of a topic; the others stay."""
        ...
