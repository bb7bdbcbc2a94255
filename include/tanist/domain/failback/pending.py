"""What is left to be done with what old sources had and the new primary lacked; asked before anything overwrites it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Mode, Verdict, named
from tanist.domain.failover.plan import plan_of
from tanist.domain.records import RunStatus
from tanist.domain.tails import PendingTail, TailStage, stored_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import TopicTails

_NEXT = {
    TailStage.UNKNOWN: "`tanist failback survey`, once the old source has returned",
    TailStage.SURVEYED: "`tanist failback rescue`",
    TailStage.RESCUED: "`tanist failback decide`",
    TailStage.DECIDED: "`tanist failback replay`",
}
ACCEPT: Final = "`tanist failback accept NAME --finding TAIL_UNDECIDED --reason TEXT`"
"""What is left to be done about a tail once the mirror was reversed."""
_WORDS = {
    TailStage.UNKNOWN: "not surveyed",
    TailStage.SURVEYED: "not rescued",
    TailStage.RESCUED: "not decided",
    TailStage.DECIDED: "not replayed",
}


def tails_of(view: StateView, mirror: MirrorName) -> tuple[PendingTail, ...]:
    """Of the last promotion of each topic that has left the mirror by an unplanned failover, how far its tails are.

    `view`: of the state topic of the new primary. A planned failover copies everything, so it leaves no tail; one of
    which no run is on record counts as unplanned.
    """
    left = {each.topic for each in view.removed(mirror)}
    last = {each.topic: each.promotion_epoch for each in view.lineage(mirror) if each.topic in left}
    planned = planned_promotions(view, mirror)
    found = stored_stage(((t, e) for t, e in last.items() if (t, e) not in planned), view.tails(mirror))
    surveyed = {each.topic for each in found}
    also = [
        each
        for each in view.tails(mirror)
        if each.topic not in surveyed and last.get(each.topic) == each.promotion_epoch
    ]
    return tuple(sorted([*found, *stored_stage(((e.topic, e.promotion_epoch) for e in also), also)]))


def last_tails(view: StateView, mirror: MirrorName) -> tuple[TopicTails, ...]:
    """What is on record of the tails of the last promotion of each topic."""
    last = {each.topic: each.promotion_epoch for each in view.lineage(mirror)}
    return tuple(each for each in view.tails(mirror) if each.promotion_epoch == last.get(each.topic))


def left_undecided(view: StateView, mirror: MirrorName) -> tuple[PendingTail, ...]:
    """The tails that were not done when the mirror was reversed, or left a topic behind, by topic and promotion.

    `view`: of the state topic of the mirror's present destination. The records of a tail stay where they are, below
    the offset where copying began, and no command rescues them any more. What the mirror copies from its beginning
    again, from the same source, is not left.
    """
    spec = view.mirror(mirror)
    last = {each.topic: each.promotion_epoch for each in view.lineage(mirror)}
    old = {(each.topic, each.promotion_epoch) for each in tails_of(view, mirror)}
    known = {(each.topic, each.promotion_epoch) for each in view.tails(mirror)}
    found = [
        each
        for each in view.tails(mirror)
        if each.stage is not TailStage.DONE
        and (each.topic, each.promotion_epoch) not in old
        and not (
            last.get(each.topic) == each.promotion_epoch
            and spec is not None
            and each.cluster_id == spec.source_cluster_id
        )
    ]
    stages = stored_stage(((each.topic, each.promotion_epoch) for each in found), found)
    inside = {each.topic for each in view.topics(mirror)}
    behind = {(topic, epoch) for topic, epoch in last.items() if topic not in inside}
    unseen = behind - known - planned_promotions(view, mirror)
    return tuple(sorted([*stages, *(PendingTail(topic, epoch, TailStage.UNKNOWN) for topic, epoch in unseen)]))


def rescued_tails(view: StateView, mirror: MirrorName) -> tuple[TopicTails, ...]:
    """The tails that are rescued and about which somebody can still decide, by topic and promotion."""
    left = {(each.topic, each.promotion_epoch) for each in left_undecided(view, mirror)}
    rescued = (each for each in view.tails(mirror) if each.stage is TailStage.RESCUED)
    return tuple(each for each in rescued if (each.topic, each.promotion_epoch) not in left)


def pending(view: StateView, mirror: MirrorName) -> tuple[PendingTail, ...]:
    """As `tails_of`, without those that are done."""
    return tuple(each for each in tails_of(view, mirror) if each.stage is not TailStage.DONE)


def tails_check(found: Iterable[PendingTail], undecided: Sequence[object] = ()) -> Check:
    """How many topics of unplanned failovers are not surveyed, not rescued, not decided, not replayed.

    `undecided`: what nobody had decided about when the mirror was reversed, and nobody has accepted since.
    """
    every = list(found)
    counts = {stage: [each for each in every if each.stage is stage] for stage in _WORDS}
    left = [each for stage in _WORDS for each in counts[stage]]
    first = next((stage for stage in _WORDS if counts[stage]), None)
    return Check(
        name="tails",
        verdict=Verdict.FAIL if left or undecided else Verdict.PASS,
        observed=", ".join(f"{len(counts[stage])} {word}" for stage, word in _WORDS.items())
        + f", of {len(every)} topic(s) after an unplanned failover"
        + (f"; {len(undecided)} undecided since a reversal" if undecided else ""),
        limit="none pending",
        age_ms=0,
        reason=named([*left, *undecided])
        + (f"; next: {_NEXT[first] if first else ACCEPT}" if left or undecided else ""),
    )


def planned_promotions(view: StateView, mirror: MirrorName) -> set[tuple[str, int]]:
    """Topic and promotion epoch of the promotions that planned failovers have made."""
    done = (run for run in view.failovers(mirror) if run.status is RunStatus.DONE)
    plans = (plan for run in done if (plan := plan_of(run)) is not None)
    return {
        (each.topic, each.promotion_epoch + 1)
        for plan in plans
        if plan.intent.mode is Mode.PLANNED
        for each in plan.intent.topics
    }
