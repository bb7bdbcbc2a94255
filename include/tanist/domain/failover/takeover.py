"""The configs that a topic gets when it takes over: those that the mirror held off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.topic_configs import KEEPS_RECORDS, MIN_ISR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.records import TopicDesired


def takeover_configs(topic: TopicDesired, replication_factor: int) -> dict[str, str]:
    """As at the source; but more replicas in sync than there are would make the topic unwritable."""
    wanted = dict(topic.deferred_configs)
    if MIN_ISR in wanted:
        wanted[MIN_ISR] = str(min(int(wanted[MIN_ISR]), replication_factor))
    return wanted


def missing(topic: TopicDesired, replication_factor: int, found: Mapping[str, str]) -> dict[str, str | None]:
    """What must still be altered."""
    wanted = takeover_configs(topic, replication_factor)
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def judged_configs(topics: Iterable[TopicDesired]) -> frozenset[str]:
    """The names of all configs that a failover of `topics` looks at: what it sets, and what must not be altered."""
    return frozenset(KEEPS_RECORDS).union(*(dict(topic.deferred_configs) for topic in topics))
