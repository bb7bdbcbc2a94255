"""Which topics a reconciliation pairs, and which positions it translates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.exclusive import exclusive_ranges
from tanist.domain.followed import CopyTrouble, is_followed
from tanist.domain.problems import ProblemCollector
from tanist.domain.reconciliation.job import PositionRequest, TopicPair
from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.starting import outside_copy
from tanist.usecases.mirror import identify
from tanist.usecases.offset_policy import offset_policy
from tanist.usecases.validation.prepare import chosen_followed, mirrored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.exclusive import ExclusiveRange
    from tanist.domain.followed import FollowedTopic
    from tanist.domain.offset_policy import OffsetPolicy
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.selection import Selection
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.validation.prepare import Mirrored


LARGEST: Final = 2**63 - 1
"""An offset has 64 bits."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Topics to compare, and the name of the source cluster. `mirror`: whose topics they are; None: of none."""

    source: str
    pairs: tuple[TopicPair, ...]
    mirror: MirrorSpec | None = None


def of_mirror(clusters: OpenMirror, selection: Selection, context: CommandContext) -> Paired:
    """The topics of a mirror with their names at both clusters and the partitions of the source, and their lineage.

    The job reports a partition that the mirror topic lacks. If somebody else copies them, `selection` is of their names
    at the source.

    Raises:
        TopicNotInMirror; AnotherCluster: the source leads elsewhere now; Misconfigured: it is not configured;
        CouldNotTell: a cluster does not answer.
    """
    both = clusters.snapshot()
    if is_followed(clusters.spec):
        pairs_there = tuple(map(_followed_pair, chosen_followed(both, selection, context)))
        return Paired(clusters.spec.source, pairs_there, clusters.spec)
    found = mirrored(both, selection, context)
    counts = {each.topic: each.at_source for each in found.growth.grown}
    stored, there = both.destination.state(OFFSETS_TOPIC, context.by), clusters.destination
    offsets = offset_policy(found.spec, there, found.view, stored, context.by)
    pairs = (
        TopicPair(
            found.spec.names.topic_at_source(t.topic),
            t.topic,
            counts.get(t.topic, t.partitions),
            found.growth.trouble(t.topic),
            tuple(_exclusive(found, t, offsets)),
        )
        for t in found.topics
    )
    return Paired(found.spec.source, tuple(pairs), found.spec)


def _followed_pair(topic: FollowedTopic) -> TopicPair:
    none_to_compare = topic.trouble not in {None, CopyTrouble.FEWER_PARTITIONS, CopyTrouble.MORE_PARTITIONS}
    partitions = max(topic.at_source or 0, topic.at_destination or 0)
    return TopicPair(topic.source, topic.copy, partitions, topic.why if none_to_compare else "")


def _exclusive(found: Mirrored, topic: TopicDesired, offsets: OffsetPolicy) -> Iterator[ExclusiveRange]:
    """What only one of the clusters can have, by the lineage of the topic."""
    mirror = found.spec.mirror
    entries = tuple(found.view.lineage(mirror, topic.topic))
    promoted = found.view.promoted(mirror, topic.topic)
    for at in topic.all_partitions():
        yield from outside_copy(found.spec, topic, at)
        yield from exclusive_ranges(entries, at, found.spec, offsets.map_of(at), promoted=promoted)


def of_topics(source: Cluster, destination: Cluster, topics: tuple[str, str], context: CommandContext) -> Paired:
    """Any two topics, with the partitions of the source topic.

    Raises:
        CouldNotTell: a cluster does not answer. UnknownTopicOrPartition: the topic does not exist.
    """
    identify((source, destination), context)
    context.announce([" with ".join(topics)])
    findings = ProblemCollector()
    counts = [
        findings.attempt(partial(_partitions, side, topic, context))
        for side, topic in zip((source, destination), topics, strict=True)
    ]
    findings.raise_all()
    return Paired(source.name, (TopicPair(*topics, partitions=max(count or 0 for count in counts)),))


def _partitions(cluster: Cluster, topic: str, context: CommandContext) -> int:
    found = cluster.topics.partitions([topic], context.by)[topic]
    if isinstance(found, TanistError):
        raise found
    return found


def positions(text: str, origin: str) -> tuple[PositionRequest, ...]:
    """The positions of a JSON list of {"topic", "partition", "offset"}, each with a "group" or without.

    Raises:
        Misconfigured: with the first invalid position.
    """
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise Misconfigured(f"{origin} is not valid JSON: {error}") from error
    if not isinstance(listed, list):
        raise Misconfigured(f'{origin} is not a JSON list of {{"topic", "partition", "offset"}}')
    return tuple(_position(each, f"{origin}: item {at}") for at, each in enumerate(listed))


def _position(item: Any, origin: str) -> PositionRequest:
    wanted = {"topic": str, "partition": int, "offset": int}
    if not isinstance(item, dict) or any(type(item.get(key)) is not kind for key, kind in wanted.items()):
        raise Misconfigured(f'{origin} is not an object {{"topic": TEXT, "partition": NUMBER, "offset": NUMBER}}')
    if not -LARGEST <= item["offset"] <= LARGEST:
        raise Misconfigured(f"{origin}: {item['offset']} is not a valid offset")
    group = item.get("group")
    if not isinstance(group, str | None):
        raise Misconfigured(f"{origin}: 'group' must be a string")
    return PositionRequest(item["topic"], item["partition"], item["offset"], group)
