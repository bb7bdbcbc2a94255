"""What a source that was replaced has, and the topics that took over have not: a check of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failback.pending import last_tails
from tanist.domain.growth import growth
from tanist.domain.tails import TailStage
from tanist.usecases import cluster_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import MirrorName, TopicPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.replicas import ClusterSeen
    from tanist.usecases.snapshot import ClusterSnapshot

NOT_ON_RECORD = "how far it was copied at the failover is not recorded"


def left_behind(
    spec: MirrorSpec, view: StateView, source: ClusterSnapshot, by: Deadline
) -> dict[TopicPartition, int | TanistError]:
    """Offsets that the source's logs have behind what was copied, of each partition that took over; markers are none.

    What was rescued, decided and replayed as decided does not count.

    Of partitions that the source has more, which were never mirrored: all that it has.
    A topic that is gone there, or was made anew, has nothing that could be lacking.

    Raises:
        CouldNotTell, BrokerError: the source does not answer. AnotherCluster: its connection leads elsewhere.
    """
    topics = view.removed(spec.mirror)
    seen = source.registry([topic.topic for topic in topics], by)
    cluster_ids.same_as_pinned(spec, seen.cluster_id, None)
    found: dict[TopicPartition, int | TanistError] = {}
    copied: dict[TopicPartition, int] = {}
    decided = _decided(view, spec.mirror)
    for topic in topics:
        if _gone(topic, seen):
            found |= dict.fromkeys(topic.all_partitions(), 0)
            continue
        ends = view.copied_up_to(spec.mirror, topic.topic)
        for at in topic.all_partitions():
            end = -1 if ends is None or at.partition >= len(ends.copied) else ends.copied[at.partition]
            if end < 0:
                found[at] = CouldNotTell(f"{at}: {NOT_ON_RECORD}")
            else:
                copied[at] = max(end, decided.get(at, 0))
    more = growth((topic for topic in topics if not _gone(topic, seen)), seen.partitions).partitions
    return found | _without_copy(more, source, by) | _behind(copied, source, by)


def _decided(view: StateView, mirror: MirrorName) -> dict[TopicPartition, int]:
    """Up to which offset the tails of the last promotions are done."""
    done = [of for of in last_tails(view, mirror) if of.stage is TailStage.DONE]
    return {of.partition_of(tail): tail.end for of in done for tail in of.tails}


def _without_copy(
    partitions: Sequence[TopicPartition], source: ClusterSnapshot, by: Deadline
) -> dict[TopicPartition, int | TanistError]:
    """Of partitions that were never mirrored, left behind by name or added since, everything they still have counts."""
    starts = source.ends(partitions, by) if partitions else {}
    errors = {at: each for at, each in starts.items() if isinstance(each, TanistError)}
    begins = {at: each.start for at, each in starts.items() if not isinstance(each, TanistError)}
    return errors | _behind(begins, source, by)


def _gone(topic: TopicDesired, seen: ClusterSeen) -> bool:
    if isinstance(seen.partitions[topic.topic], UnknownTopicOrPartition):
        return True
    now = seen.topic_ids.get(topic.topic)
    return now is not None and now != topic.source_topic_id


def _behind(
    copied: Mapping[TopicPartition, int], source: ClusterSnapshot, by: Deadline
) -> dict[TopicPartition, int | TanistError]:
    ends = source.true_ends(copied, by) if copied else {}
    more = {at: (copied[at], end) for at, end in ends.items() if not isinstance(end, TanistError) and end > copied[at]}
    only_control = source.only_control(more, by) if more else {}
    found: dict[TopicPartition, int | TanistError] = {}
    for at, end in ends.items():
        markers = only_control.get(at, True)
        if isinstance(end, TanistError):
            found[at] = end
        elif isinstance(markers, TanistError):
            found[at] = markers
        else:
            found[at] = 0 if markers else end - copied[at]
    return found
