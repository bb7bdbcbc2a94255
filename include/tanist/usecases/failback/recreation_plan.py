"""Topics that cannot return as they are, and what it costs to delete them at the old source and to copy them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.failback.reversal import (
    Recreation,
    TopicCannotReturn,
)
from tanist.domain.names import MirrorPartition
from tanist.ports.topics import TopicFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.domain.failback.survey import PartitionSurvey
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


@dataclass(frozen=True, slots=True)
class UnfitTopic:
    """A topic that is not what it was at the promotion. `mended`: by deleting it at the old source, and copying it.

    `replaced`: the old source has no topic of this name, or another one, so no survey can compare it.
    """

    topic: str
    error: TanistError
    mended: bool
    replaced: bool = False


def unfit_topics(
    view: StateView, clusters: ReturnedMirror, names: Sequence[str], command: CommandContext
) -> list[UnfitTopic]:
    """Those of `names` that are not what they were: at either cluster."""
    mirror, by = clusters.spec.mirror, command.by
    lineage = {entry.topic: entry for entry in view.lineage(mirror)}
    promoted = {topic.topic: topic for topic in view.removed(mirror)}
    found: list[UnfitTopic] = []
    for side in (clusters.destination, clusters.source):
        described = side.topics.describe(names, by)
        old = side is clusters.source
        for name in names:
            facts, count = described[name], promoted[name].partitions
            pinned = promoted[name].source_topic_id if old else lineage[name].topic_id
            if not isinstance(facts, TopicFacts):
                error = TopicCannotReturn(f"{name!r} cannot be seen at {side.name!r}: {facts}")
                missing = old and isinstance(facts, UnknownTopicOrPartition)
                found.append(UnfitTopic(name, error, missing, missing))
            elif pinned not in {"", facts.topic_id}:
                error = TopicCannotReturn(f"{name!r} was deleted and re-created at {side.name!r}")
                found.append(UnfitTopic(name, error, old, old))
            elif facts.partitions != count:
                error = TopicCannotReturn(
                    f"{name!r} has {facts.partitions} partition(s) at {side.name!r}, {count} were copied"
                )
                found.append(UnfitTopic(name, error, mended=True))
    return found


def uncompared_topics(found: Iterable[PartitionSurvey], unfit: Iterable[UnfitTopic]) -> list[UnfitTopic]:
    """Those with partitions that cannot be compared, so they cannot return as they are; without those of `unfit`."""
    left = {each.topic for each in unfit}
    bad = [each for each in found if not each.identical]
    why = {each.partition.topic: f"{each.partition}: {'; '.join(each.reasons)}" for each in bad}
    return [
        UnfitTopic(name, TopicCannotReturn(f"{name!r} cannot be compared: {reason}"), mended=True)
        for name, reason in sorted(why.items())
        if name not in left
    ]


def plan_recreations(
    view: StateView,
    clusters: ReturnedMirror,
    names: Sequence[str],
    uncompared: Collection[MirrorPartition],
    command: CommandContext,
) -> dict[str, tuple[int, Recreation]]:
    """What is deleted of each topic, what it costs to copy it again, and how many partitions it gets.

    `uncompared`: the partitions whose records no survey can compare.

    Raises:
        CouldNotTell, BrokerError: a cluster does not answer.
    """
    if not names:
        return {}
    promoted = {topic.topic: topic for topic in view.removed(clusters.spec.mirror)}
    old = known_topics(clusters.source.topics.describe(names, command.by), missing=True)
    new = known_topics(clusters.destination.topics.describe(names, command.by))
    unseen = {
        name: [
            at
            for at in (MirrorPartition(name, n) for n in range(facts.partitions))
            if at in uncompared or at.partition >= _surveyed(facts, promoted[name])
        ]
        for name, facts in old.items()
    }
    ends = clusters.source.logs.true_ends([at for each in unseen.values() for at in each], command.by)
    again = [MirrorPartition(name, n) for name, facts in new.items() for n in range(facts.partitions)]
    logs = clusters.destination.logs.ends(again, command.by)
    sizes = clusters.destination.sizes.sizes(again, command.by)
    found: dict[str, tuple[int, Recreation]] = {}
    for name in names:
        ours = [at for at in again if at.topic == name]
        spans = [None if isinstance(end := logs[at], TanistError) else end.high_watermark - end.start for at in ours]
        found[name] = (
            new[name].partitions,
            Recreation(
                topic_id=old[name].topic_id if name in old else "",
                replicas=old[name].replication_factor if name in old else 0,
                discarded=sum(value_of(ends[at]) for at in unseen.get(name, ())),
                offsets=None if None in spans else sum(span or 0 for span in spans),
                bytes=sum(sizes[at] for at in ours) if all(at in sizes for at in ours) else None,
            ),
        )
    return found


def _surveyed(facts: TopicFacts, promoted: TopicDesired) -> int:
    """How many partitions of the old source's topic a survey compares: none of another topic of that name."""
    return promoted.partitions if promoted.source_topic_id in {"", facts.topic_id} else 0


def known_topics(described: Mapping[str, TopicFacts | TanistError], *, missing: bool = False) -> dict[str, TopicFacts]:
    """The topics that are there. Raises the error of one that cannot be seen; `missing`: it may have been deleted."""
    found = {}
    for name, facts in described.items():
        if isinstance(facts, TopicFacts):
            found[name] = facts
        elif not (missing and isinstance(facts, UnknownTopicOrPartition)):
            raise facts
    return found


def value_of(end: int | TanistError) -> int:
    """The end of a log. Raises why it is not known."""
    if isinstance(end, TanistError):
        raise end
    return end
