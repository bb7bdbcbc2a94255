"""What the source has and a mirror does not know of yet: nobody copies it, and no takeover opens it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True)
class Grown:
    """A topic of which fewer partitions are `mirrored` than there are `at_source`."""

    topic: str
    mirrored: int
    at_source: int

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those that have no copy."""
        return tuple(TopicPartition(self.topic, n) for n in range(self.mirrored, self.at_source))


@dataclass(frozen=True, slots=True)
class Growth:
    """`unreported`: topics of which the source did not say how many partitions they have, and why: not "none"."""

    grown: tuple[Grown, ...] = ()
    unreported: Mapping[str, TanistError] = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All that have no copy."""
        return tuple(at for each in self.grown for at in each.partitions)

    def trouble(self, topic: str) -> str:
        """Why it could not be told of `topic`; empty: it was."""
        error = self.unreported.get(topic)
        return "" if error is None else f"the source does not report its number of partitions: {error}"


def growth(topics: Iterable[TopicDesired], at_source: Mapping[str, int | TanistError]) -> Growth:
    """What the source has more of each of `topics` than the mirror, from what it answered."""
    grown, unreported = [], {}
    for topic in topics:
        count = at_source[topic.topic]
        if isinstance(count, TanistError):
            unreported[topic.topic] = count
        elif count > topic.partitions:
            grown.append(Grown(topic.topic, topic.partitions, count))
    return Growth(tuple(grown), unreported)


def new_topics(spec: MirrorSpec, at_source: Iterable[str], view: StateView) -> tuple[str, ...]:
    """Topics of the source that the mirror's filters match and that were never in it, sorted.

    A topic that was removed from the mirror, or has taken over, is none: that was somebody's decision.
    """
    known = {each.topic for each in view.topics(spec.mirror)}
    return Selection(spec.include, spec.exclude).of(set(at_source) - known)
