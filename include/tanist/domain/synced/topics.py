"""Mirror topics, as a kind that follows the source: one that does not exist is created, none is ever deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.metadata import Change, Copy, Kind, MetadataRow, Share
from tanist.domain.synced.configs import planned_configs, unfenced

if TYPE_CHECKING:
    from tanist.domain.metadata import MetadataRules, OnBoth
    from tanist.domain.records import TopicDesired


def decide(topic: TopicDesired, found: OnBoth, rules: MetadataRules) -> Share:
    """The topic to create (`change`), if the destination has none of that name."""
    if found.copy is not None:
        return Share()
    source = unfenced(topic, found.source, rules)
    row = MetadataRow(
        topic=topic.topic,
        kind=Kind.TOPIC,
        name=topic.topic,
        change=Change.CREATE,
        source=f"{source.partitions} partition(s)",
        reason="the mirror topic does not exist; it is created and copied from the source",
    )
    replicas = rules.replication_factor
    copy = Copy(
        partitions=source.partitions,
        replication_factor=replicas,
        configs=planned_configs(source, rules, replicas).now,
    )
    return Share(rows=(row,), change=copy, recorded={"partitions": source.partitions})
