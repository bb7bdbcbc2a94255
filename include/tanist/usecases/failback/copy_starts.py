"""Where a reversed mirror begins to copy: at the end of the old source's log, which must be as it was surveyed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tanist.domain.errors import Refused, TanistError
from tanist.domain.failback.reversal import OffsetsOverlap
from tanist.domain.names import TopicPartition
from tanist.domain.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.failback.reversal import ReturningTopic
    from tanist.domain.moves import TopicBefore
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

_T = TypeVar("_T")


class LogChanged(Refused):
    name = "LOG_CHANGED_SINCE_SURVEY"
    operator_action = "stop these producers, see `tanist failback survey`, then plan the reversal again"


def copy_starts(
    topics: Sequence[ReturningTopic], before: Mapping[str, TopicBefore], old: Cluster, by: Deadline
) -> dict[TopicPartition, int]:
    """The end of each log at the old source. What lies below is history, which nothing compares any more.

    Coordinators and producers that try again may have added markers since the survey; nobody may have added records.

    Raises:
        LogChanged: a log has more than markers since it was surveyed, or less. OffsetsOverlap: it has used offsets that
        the new primary's own records have. Problems: several of these. CouldNotTell, BrokerError: a log cannot be read.
    """
    surveyed = {TopicPartition(name, n): end for name, was in before.items() for n, end in enumerate(was.ends)}
    free_from = {TopicPartition(each.topic, n): end for each in topics for n, end in enumerate(each.free_from)}
    ends = _known(old.logs.true_ends(list(free_from), by))
    grown = {at: (surveyed.get(at, 0), end) for at, end in ends.items() if end > surveyed.get(at, 0)}
    written = {at: grown[at] for at, control in _known(old.logs.only_control(grown, by)).items() if not control}
    problems = [*_changes(ends, surveyed, written, old.name), *_overlaps(ends, free_from, old.name)]
    if problems:
        refuse(problems)
    return ends


def _changes(
    ends: Mapping[TopicPartition, int],
    surveyed: Mapping[TopicPartition, int],
    written: Mapping[TopicPartition, tuple[int, int]],
    where: str,
) -> Iterator[LogChanged]:
    for at, end in ends.items():
        if at in written:
            begin, _ = written[at]
            yield LogChanged(f"{at}: producers have written to offsets {begin} to {end - 1} at {where!r}")
        elif end < surveyed.get(at, 0):
            yield LogChanged(f"{at} ends at {end} at {where!r}, and ended at {surveyed[at]} when it was surveyed")


def _overlaps(
    ends: Mapping[TopicPartition, int], free_from: Mapping[TopicPartition, int], where: str
) -> Iterator[OffsetsOverlap]:
    for at, end in ends.items():
        if end > free_from[at]:
            yield OffsetsOverlap(f"{at} ends at {end} at {where!r}, and only offsets from {free_from[at]} on are free")


def _known(answers: Mapping[TopicPartition, _T | TanistError]) -> dict[TopicPartition, _T]:
    """Raises the first error among the answers."""
    found = {}
    for at, answer in answers.items():
        if isinstance(answer, TanistError):
            raise answer
        found[at] = answer
    return found
