"""What old sources had that the new primary lacks, and what is undecided of it; asked before anything overwrites it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Mode, Verdict, named
from tanist.domain.failback.reversal import TAIL_UNDECIDED, Reversal
from tanist.domain.failback.way_back import no_way_back
from tanist.domain.failover.commands import accept_undecided_command
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MoveStatus
from tanist.domain.names import TopicPartition
from tanist.domain.records import RunStatus
from tanist.domain.tails import FindingKind, PendingTail, TailFinding, TailStage, TailVerdict, TopicTails, stored_stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import MirrorRecord
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail


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
    which no run is on record counts as unplanned. A mirror without a way back has none: nobody can survey them.
    """
    spec = view.mirror(mirror)
    if spec is not None and no_way_back(spec) is not None:
        return ()
    left = {each.topic for each in view.removed(mirror)}
    last = {each.topic: each.promotion_epoch for each in view.lineage(mirror) if each.topic in left}
    planned, replays = planned_promotions(view, mirror), view.replays(mirror)
    found = stored_stage(((t, e) for t, e in last.items() if (t, e) not in planned), view.tails(mirror), replays)
    surveyed = {each.topic for each in found}
    also = [
        each
        for each in view.tails(mirror)
        if each.topic not in surveyed and last.get(each.topic) == each.promotion_epoch
    ]
    return tuple(sorted([*found, *stored_stage(((e.topic, e.promotion_epoch) for e in also), also, replays)]))


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
    stages = stored_stage(((each.topic, each.promotion_epoch) for each in found), found, view.replays(mirror))
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
        + (f"; next: {_NEXT[first] if first else '`tanist next`'}" if left or undecided else ""),
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


_BY_VERDICT: Final = {TailVerdict.OVERLAP: FindingKind.OVERLAP, TailVerdict.DIVERGED: FindingKind.DIVERGED}


def findings_of(view: StateView, mirror: MirrorName) -> tuple[TailFinding, ...]:
    """Of all promotions whose tails are on record, also of those that have returned since.

    Not of those whose whole log was copied again: no offset names two records there any more.
    """
    entries = {(each.topic, each.promotion_epoch): each for each in view.lineage(mirror)}
    accepted = {
        (each.topic, each.promotion_epoch, finding): (amount, each)
        for each in view.findings_accepted(mirror)
        for finding, amount in zip(each.findings, each.amounts, strict=False)
    }
    tails = {(each.topic, each.promotion_epoch): each for each in view.tails(mirror)}
    amounts = [
        (at, finding, offsets)
        for at, each in tails.items()
        for finding, offsets in _amounts(each, entries.get(at))
        if finding is FindingKind.EXPIRED or not _copied_anew(each, view)
    ]
    for each in left_undecided(view, mirror):
        at = (each.topic, each.promotion_epoch)
        amounts.append((at, FindingKind.UNDECIDED, _undecided(tails.get(at), entries.get(at))))
    found = []
    for (topic, epoch), finding, offsets in amounts:
        amount, by = accepted.get((topic, epoch, finding), (0, None))
        known = by if by is not None and offsets <= amount else None
        who, why = (known.accepted_by, known.reason) if known else ("", "")
        found.append(TailFinding(topic, epoch, finding, offsets, who, why))
    return tuple(sorted(found))


def _copied_anew(tails: TopicTails, view: StateView) -> bool:
    """Whether the mirror has copied the log with these tails from its beginning since: both clusters have the same.

    As it does when the topic is added again. A promotion from another cluster than the one before it led to began so.
    """
    entries = sorted(view.lineage(tails.mirror, tails.topic), key=lambda each: each.promotion_epoch)
    later = [each for each in entries if each.promotion_epoch > tails.promotion_epoch]
    if later:
        before = next((each for each in entries if each.promotion_epoch == tails.promotion_epoch), None)
        old = later[0].old_cluster_id
        return before is not None and old == tails.cluster_id != before.new_cluster_id
    spec = view.mirror(tails.mirror)
    inside = {each.topic for each in view.mirrored(tails.mirror)}
    return spec is not None and tails.topic in inside and spec.source_cluster_id == tails.cluster_id


def without_findings(records: Iterable[MirrorRecord], topics: Collection[str], cluster_id: str) -> list[MirrorRecord]:
    """`records`, as a reversal takes them along that has copied `topics` again, from their first offset.

    `cluster_id`: of the old source, where their logs were deleted. What was decided about has no other record at its
    offsets any more; what had expired stays lost.
    """
    found = list(records)
    for n, each in enumerate(found):
        if not isinstance(each, TopicTails) or each.topic not in topics:
            continue
        if each.cluster_id == cluster_id and each.stage is TailStage.DONE:
            found[n] = replace(each, tails=tuple(replace(tail, verdict=TailVerdict.NONE) for tail in each.tails))
    return found


def undecided(view: StateView, mirror: MirrorName) -> tuple[TailFinding, ...]:
    """Tails about which nobody had decided when the mirror was reversed, and which nobody has accepted since."""
    found = findings_of(view, mirror)
    return tuple(each for each in found if each.finding is FindingKind.UNDECIDED and not each.accepted_by)


def _amounts(tails: TopicTails, entry: TopicLineage | None) -> Iterator[tuple[FindingKind, int]]:
    for verdict, finding in _BY_VERDICT.items():
        about = [each for each in tails.tails if each.verdict is verdict]
        if about:
            yield finding, sum(_reused(each, entry) for each in about)
    unknown = [each for each in tails.tails if each.verdict is TailVerdict.UNKNOWN]
    if uncompared := sum(each.end - each.common_end for each in unknown):
        yield FindingKind.UNCOMPARED, uncompared
    if expired := sum(each.expired for each in tails.tails):
        yield FindingKind.EXPIRED, expired


def _undecided(tails: TopicTails | None, entry: TopicLineage | None) -> int:
    """Offsets of tails; of those that nobody has surveyed, as far as is known, what was reserved for them."""
    if tails is not None and tails.stage is not TailStage.UNKNOWN:
        return sum(each.end - each.common_end for each in tails.with_records())
    if entry is None:
        return 0
    return sum(end - start for start, end in zip(entry.old_ends, entry.reserve_ends, strict=True))


def _reused(tail: PartitionTail, entry: TopicLineage | None) -> int:
    """Offsets that name a record on each cluster; all of the tail's, if the lineage is not on record."""
    if entry is None or tail.partition >= len(entry.old_ends):
        return tail.end - tail.common_end
    old_end, reserve_end = entry.old_ends[tail.partition], entry.reserve_ends[tail.partition]
    return max(0, min(tail.end, old_end) - tail.common_end) + max(0, tail.end - reserve_end)


def findings_check(found: Iterable[TailFinding]) -> Check:
    """Whether all of them are accepted."""
    every = list(found)
    left = [each for each in every if not each.accepted_by]
    return Check(
        name="tail_findings",
        verdict=Verdict.FAIL if left else Verdict.PASS,
        observed=f"{len(left)} of {len(every)} finding(s) about old sources not accepted",
        limit="none",
        age_ms=0,
        reason=named(left) + ("; next: `tanist next`" if left else ""),
    )


def decided_promotions(at_source: StateView, spec: MirrorSpec) -> frozenset[tuple[str, int]]:
    """Topic and promotion epoch of promotions that have left no undecided tail, as the source of a mirror knows.

    Those of planned failovers, and those whose topics the last reversal has taken back without TAIL_UNDECIDED.
    """
    return frozenset((*planned_promotions(at_source, spec.mirror), *_taken_back(at_source, spec)))


def _taken_back(at_source: StateView, spec: MirrorSpec) -> Iterator[tuple[str, int]]:
    move = at_source.move(spec.mirror)
    if move is None or move.status is not MoveStatus.MOVED or move.cluster_id != spec.destination_cluster_id:
        return
    try:
        reversal = Reversal.read(move.plan_json)
    except (ValueError, KeyError, TypeError):
        return  # of another version: nothing is known
    undecided = reversal.accepted(TAIL_UNDECIDED)
    for each in reversal.topics:
        if not any(str(TopicPartition(each.topic, n)) in undecided for n in range(len(each.free_from))):
            yield each.topic, each.promotion_epoch


def may_have_tails(
    entries: Iterable[TopicLineage], topics: Collection[str], decided: Collection[tuple[str, int]]
) -> tuple[TopicLineage, ...]:
    """The promotions of `topics`, which a mirror has now, that may have left an undecided tail.

    Where nothing was reserved there is none: a topic only returns if the old source has no offset beyond the reserve.
    """
    return tuple(
        each
        for each in entries
        if each.topic in topics
        and (each.topic, each.promotion_epoch) not in decided
        and each.old_ends != each.reserve_ends
    )


def unknown_tails(entry: TopicLineage, mirror_id: str, now: EpochMs) -> TopicTails:
    """The record of a promotion whose tails are not known."""
    return TopicTails(
        mirror=entry.mirror,
        mirror_id=mirror_id,
        topic=entry.topic,
        promotion_epoch=entry.promotion_epoch,
        cluster_id=entry.old_cluster_id,
        tails=(),
        stage=TailStage.UNKNOWN,
        at=now,
    )


def undecided_warning(entry: TopicLineage, destination: str) -> str:
    """What a person should know of a promotion whose tails are not known."""
    reserved = sum(end - start for start, end in zip(entry.old_ends, entry.reserve_ends, strict=True))
    return (
        f"{entry.topic}: whether anybody has decided about the divergent tail of promotion {entry.promotion_epoch} "
        f"({reserved} offsets were reserved) is not known, so it counts as undecided: no planned failover is approved "
        f"until somebody accepts it with `{accept_undecided_command(entry.mirror, destination)}`"
    )
