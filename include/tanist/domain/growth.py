"""Topics and partitions that only the source has: they are neither copied nor opened by a failover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import SAME_NAMES, SourcePartition
from tanist.domain.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.names import TopicNames
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True)
class Grown:
    """A topic of which fewer partitions are `mirrored` than there are `at_source`. `source`: its name there."""

    topic: str
    mirrored: int
    at_source: int
    source: str

    @property
    def partitions(self) -> tuple[SourcePartition, ...]:
        """Partitions of this topic that are not mirrored."""
        return tuple(SourcePartition(self.source, n) for n in range(self.mirrored, self.at_source))


@dataclass(frozen=True, slots=True)
class Growth:
    """`unreported`: copies of topics whose partitions the source did not report, and why. Unknown is not none."""

    grown: tuple[Grown, ...] = ()
    unreported: Mapping[str, TanistError] = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[SourcePartition, ...]:
        """All partitions that are not mirrored."""
        return tuple(at for each in self.grown for at in each.partitions)

    def trouble(self, topic: str) -> str:
        """Why the growth of `topic` is unknown; empty: it is known."""
        error = self.unreported.get(topic)
        return "" if error is None else f"the source does not report its number of partitions: {error}"


def growth(
    topics: Iterable[TopicDesired], at_source: Mapping[str, int | TanistError], names: TopicNames = SAME_NAMES
) -> Growth:
    """Partitions of each of `topics` that only the source has, from its answer, which has the names of the source."""
    grown, unreported = [], {}
    for topic in topics:
        source = names.topic_at_source(topic.topic)
        count = at_source[source]
        if isinstance(count, TanistError):
            unreported[topic.topic] = count
        elif count > topic.partitions:
            grown.append(Grown(topic.topic, topic.partitions, count, source))
    return Growth(tuple(grown), unreported)


def new_topics(spec: MirrorSpec, at_source: Iterable[str], view: StateView) -> tuple[str, ...]:
    """Topics of the source that the mirror's filters match and that were never in it, sorted.

    A topic that was removed from the mirror, was detached, has taken over, or was left behind by a reversal is none:
    that was somebody's decision.
    """
    known = {each.topic for each in view.topics(spec.mirror)} | {each.topic for each in view.lineage(spec.mirror)}
    known |= {each.topic for each in view.detached(spec.mirror)}
    matched = Selection(spec.include, spec.exclude).of(at_source)
    return tuple(name for name in matched if (copy := spec.names.copy_of(name)) is not None and copy not in known)
