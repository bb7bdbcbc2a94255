"""Partitions of a topic, as a kind that follows the source: they are only ever added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.metadata import Change, Kind, MetadataRow, Outcome, Share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.metadata import MetadataRules, OnBoth, TopicMetadata
    from tanist.domain.records import TopicDesired


def decide(topic: TopicDesired, found: OnBoth, _rules: MetadataRules) -> Share:
    """How many partitions the mirror topic is to have (`change`), and how many of them workers are to copy."""
    source, copy = found.source, found.copy
    if copy is None:
        return Share()
    return Share(
        rows=tuple(_rows(topic, source, copy)),
        change=source.partitions if copy.partitions < source.partitions else None,
        recorded={"partitions": source.partitions if copy.partitions <= source.partitions else topic.partitions},
    )


def _rows(topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata) -> Iterator[MetadataRow]:
    def row(change: Change, verdict: Outcome, reason: str) -> MetadataRow:
        return MetadataRow(
            topic=topic.topic,
            kind=Kind.PARTITIONS,
            name=topic.topic,
            change=change,
            source=str(source.partitions),
            destination=str(copy.partitions),
            verdict=verdict,
            reason=reason,
        )

    if copy.partitions > source.partitions:
        yield row(Change.NOTHING, Outcome.CONFLICT, "the mirror topic has more; partitions cannot be removed")
    elif copy.partitions < source.partitions:
        yield row(Change.GROW, Outcome.DIFFERS, "partitions were added at the source")
    elif topic.partitions < source.partitions:
        yield row(Change.GROW, Outcome.DIFFERS, f"only {topic.partitions} of them are mirrored yet")
