"""Divergent tails whose records were lost with the state of a mirror: what nobody has decided for sure is undecided.

After a reversal the source of a mirror has its lineage, and the approved plan of the reversal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failback.pending import planned_promotions
from tanist.domain.failback.reversal import TAIL_UNDECIDED, Reversal
from tanist.domain.moves import MoveStatus
from tanist.domain.names import TopicPartition
from tanist.domain.tails import TailStage, TopicTails

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView


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
    accept = f"tanist failback accept {entry.mirror} --destination {destination} --finding TAIL_UNDECIDED --reason TEXT"
    return (
        f"{entry.topic}: whether anybody has decided about the divergent tail of promotion {entry.promotion_epoch} "
        f"({reserved} offsets were reserved) is not known, so it counts as undecided: no planned failover is approved "
        f"until somebody accepts it with `{accept}`"
    )
