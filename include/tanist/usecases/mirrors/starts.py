"""Where the copies of topics begin that are added to a mirror with mapped offsets, found when they are added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition, SourcePartition, TopicPartition
from tanist.domain.problems import refuse
from tanist.domain.record_times import ReadLimits
from tanist.domain.starting import LATEST, start_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot

_V = TypeVar("_V")
_P = TypeVar("_P", bound=TopicPartition)


def with_source_starts(
    plans: Sequence[TopicPlan], spec: MirrorSpec, source: SourceSnapshot, by: Deadline
) -> tuple[TopicPlan, ...]:
    """`plans` with the offsets at which the copies begin, by the setting of the mirror; without one at the start.

    `latest` is the last stable offset now, so that no transaction is cut. A time is that of the first record of this
    time or later; where there is none, it is `latest`.

    Raises:
        Problems, or the single error: the source does not tell it of some partition.
    """
    if not spec.start or not plans:
        return tuple(plans)
    at = [SourcePartition(plan.source.name, n) for plan in plans for n in range(plan.source.partitions)]
    starts = {each: ends.last_stable for each, ends in _all(source.ends(at, by)).items()}
    if (time := start_time(spec.start)) is not None:
        found = _all(source.cluster.times.since(_ask(at, time), ReadLimits(), by))
        for each, since in found.items():
            first = since[time]
            starts[each] = starts[each] if first is None else min(starts[each], first.offset)
    else:
        assert spec.start == LATEST  # noqa: S101  # `start_setting` stores nothing else
    return tuple(
        replace(plan, source_starts=tuple(starts[SourcePartition(plan.source.name, n)] for n in _numbers(plan)))
        for plan in plans
    )


def behind_records(plans: Sequence[TopicPlan], destination: DestinationSnapshot, by: Deadline) -> tuple[TopicPlan, ...]:
    """`plans` of topics that exist, with the true ends of their logs: there the copies begin.

    Raises:
        Problems, or the single error: the destination does not tell the end of some partition.
    """
    existing = [plan for plan in plans if plan.exists]
    ends = _all(destination.true_ends([MirrorPartition(p.name, n) for p in existing for n in _numbers(p)], by))
    return tuple(replace(plan, copy_starts=starts) if any(starts := _ends(plan, ends)) else plan for plan in plans)


def _ends(plan: TopicPlan, ends: Mapping[MirrorPartition, int]) -> tuple[int, ...]:
    return tuple(ends[MirrorPartition(plan.name, n)] for n in _numbers(plan)) if plan.exists else ()


def _numbers(plan: TopicPlan) -> range:
    return range(plan.source.partitions)


def _ask(at: Sequence[SourcePartition], time: EpochMs) -> Mapping[SourcePartition, tuple[EpochMs]]:
    return dict.fromkeys(at, (time,))


def _all(answers: Mapping[_P, _V | TanistError]) -> dict[_P, _V]:
    errors: list[Any] = [answer for answer in answers.values() if isinstance(answer, TanistError)]
    if errors:
        refuse(errors)
    return {at: answer for at, answer in answers.items() if not isinstance(answer, TanistError)}
