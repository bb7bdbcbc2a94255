"""What lies at the end of two logs: who wrote it, whether it is markers only, and which log is the longer one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.failover.facts import PartitionFacts
    from tanist.domain.names import TopicPartition
    from tanist.domain.recovery import ProducerIds
    from tanist.ports.clock import Deadline
    from tanist.ports.logs import LogEnds
    from tanist.usecases.snapshot import ClusterSnapshot


def foreign(
    copies: ClusterSnapshot,
    ends: Mapping[TopicPartition, LogEnds],
    ours: ProducerIds,
    fenced: Collection[TopicPartition],
    by: Deadline,
    begun: Mapping[TopicPartition, int],
) -> dict[TopicPartition, bool]:
    """Whether somebody else than the mirror wrote the last batch of each copy; not there: it could not be told.

    Behind a barrier it is not asked: there others write by right. An empty log has no foreign end; neither has one that
    ends where copying begins (`begun`).
    """
    last = {
        at: each.high_watermark - 1
        for at, each in ends.items()
        if max(each.start, begun.get(at, 0)) < each.high_watermark
    }
    asked = {at: offset for at, offset in last.items() if at not in fenced}
    try:
        answers = copies.last_producers(asked, by) if asked else {}
    except TanistError:
        answers = {}
    reported = {at: each not in ours for at, each in answers.items() if not isinstance(each, TanistError)}
    return dict.fromkeys(set(ends) - set(asked), False) | reported


def longer(
    copies: ClusterSnapshot,
    ends: Mapping[TopicPartition, LogEnds],
    maps: Mapping[TopicPartition, OffsetMap],
    true_ends: Mapping[TopicPartition, int],
    by: Deadline,
) -> dict[TopicPartition, bool | None]:
    """Whether each copy holds records from behind the true end of its source; None: they could not be read.

    `ends` (of the copies) were read before `true_ends`, and only what is committed is copied, so a source that has
    lost nothing is never the shorter one: not while it grows, nor when a leader is elected from the replicas in sync.
    Control batches alone prove nothing: a worker that died may have left one too many, which no map tells of yet.
    """
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for at, copy in ends.items():
        offsets, source_end = maps.get(at, OffsetMap()), true_ends.get(at)
        if source_end is not None and offsets.origin(DestinationOffset(copy.high_watermark)) > source_end:
            spans[at] = (max(copy.start, offsets.locate(SourceOffset(source_end))), copy.high_watermark)
    answers = _only_control(copies, {at: span for at, span in spans.items() if span[0] < span[1]}, by)
    return {at: None if at not in answers else not answers[at] for at in spans}


def without_markers(
    source: ClusterSnapshot, found: tuple[PartitionFacts, ...], fence_status: Mapping[str, bool], by: Deadline
) -> tuple[PartitionFacts, ...]:
    """`found`, with the end of the data where markers alone follow it behind a fence.

    There a producer that tries again and again still spends offsets, on markers of its aborts.
    """
    spans = {each.partition: each.tail for each in found if each.tail and fence_status.get(each.partition.topic)}
    answers = _only_control(source, spans, by)
    return tuple(_without_tail(each) if answers.get(each.partition) is True else each for each in found)


def _without_tail(each: PartitionFacts) -> PartitionFacts:
    return each if each.live is None else replace(each, live=replace(each.live, data_end=each.copied))


def _only_control(
    cluster: ClusterSnapshot, spans: Mapping[TopicPartition, tuple[int, int]], by: Deadline
) -> dict[TopicPartition, bool]:
    try:
        answers = cluster.only_control(spans, by) if spans else {}
    except TanistError:
        answers = {}
    return {at: each for at, each in answers.items() if not isinstance(each, TanistError)}
