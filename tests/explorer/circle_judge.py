"""What must hold on the whole circle: after each row, at each checkpoint, and once everybody has come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.explorer.circle import tails_on_record
from tests.explorer.place import DR, PARTITIONS, TOPICS
from tests.explorer.product import (
    FenceStatus,
    MirrorPartition,
    MoveStatus,
    Reversal,
    TailStage,
    left_undecided,
    may_stand,
    pending,
    quarantine_topic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.explorer.circle import Circle
    from tests.explorer.product import FencedTopic, RecordedCluster, StateView

ONE_SIDE: Final = "one side is writable, or a fence that is owed is on record"
FENCE_KNOWN: Final = "a fence that stands is on record"
LISTED: Final = "no acknowledged record leaves every list"
ONE_RECORD: Final = "an offset names one record"
_WHOLE: Final = (0, 1 << 62)
ONCE: Final = "a rescued record is replayed once"
EXACTLY_ONE: Final = "at rest exactly one side is writable"


def check(circle: Circle, when: str) -> None:
    """All of it, as the clusters are now. `when`: for people."""
    for topic in TOPICS:
        _one_side(circle, topic, when)
        _fence_is_known(circle, topic, when)
    _records(circle, when)


def at_rest(circle: Circle) -> None:
    """Nobody is at work, and nothing is left to do."""
    check(circle, "at rest")
    for topic in TOPICS:
        takes = [each.name for each in circle.both if circle.takes(each, topic)]
        if len(takes) != 1 and not circle.is_at_work():
            circle.violated(EXACTLY_ONE, f"{topic} can be written to at {takes or 'neither cluster'}")


# ── sides, and fences ─────────────────────────────────────────────────────────────────────────────────────────────


def _fences(circle: Circle, topic: str) -> Iterator[FencedTopic]:
    for view in circle.views():
        kept = (fence for record in view.kept_fences(DR) for fence in record.topics)
        yield from (each for each in (*view.source_fences(DR), *kept) if each.topic == topic)


def _one_side(circle: Circle, topic: str, when: str) -> None:
    both = all(circle.takes(each, topic) for each in circle.both)
    owed = any(each.status is FenceStatus.PENDING for each in _fences(circle, topic))
    bad = both and not owed and not _accepted(circle, topic)
    if circle.lasts(f"{ONE_SIDE} {topic}", holds=bad):
        circle.violated(ONE_SIDE, f"{topic} takes records at both clusters, and nothing is owed ({when})")


def _accepted(circle: Circle, topic: str) -> bool:
    """While a reversal lifts fences that no ACL stands in for, which its approver has accepted."""
    moves = [move for view in circle.views() if (move := view.moving(DR)) is not None]
    return any(topic in Reversal.read(move.plan_json).accepted("MIRROR_TOPIC_WRITABLE") for move in moves)


def _fence_is_known(circle: Circle, topic: str, when: str) -> None:
    fenced = [each.name for each in circle.both if circle.is_fenced(each, topic)]
    known = any(may_stand(each) for each in _fences(circle, topic))
    if circle.lasts(f"{FENCE_KNOWN} {topic}", holds=bool(fenced) and not known):
        circle.violated(FENCE_KNOWN, f"{topic} is fenced at {fenced}, and no record says so ({when})")


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _records(circle: Circle, when: str) -> None:
    views = circle.views()
    for at in PARTITIONS:
        primary = circle.primary(at.topic)
        mine = dict(primary.log(at)) if at in primary.ends else {}
        _each_once(circle, at, [each.number for each in mine.values() if each.origin >= 0])
        if not any(circle.is_foreign(at, each) for each in circle.both):
            _one_record(circle, at, when)
            _none_is_missing(circle, at, {each.number for each in mine.values()}, views, when)


def _each_once(circle: Circle, at: MirrorPartition, replayed: list[int]) -> None:
    for number in {each for each in replayed if replayed.count(each) > 1}:
        circle.violated(ONCE, f"record {number} is in {at} {replayed.count(number)} times")


def _one_record(circle: Circle, at: MirrorPartition, when: str) -> None:
    """Offsets beyond the reserve may name two until the old source's topic is deleted: a survey reports them."""
    if circle.is_replaced(at.topic):
        return
    ours, theirs = (dict(each.log(at)) if at in each.ends else {} for each in circle.both)
    view = circle.view()
    ends = [each.reserve_ends[at.partition] for each in view.lineage(DR, at.topic)]
    free_from = ends[-1] if ends and circle.has_old_source(at.topic) else None
    for offset in ours.keys() & theirs.keys():
        if ours[offset].number != theirs[offset].number and (free_from is None or offset < free_from):
            circle.violated(ONE_RECORD, f"offset {offset} of {at} names two ({when})")


def _none_is_missing(
    circle: Circle, at: MirrorPartition, mine: set[int], views: tuple[StateView, ...], when: str
) -> None:
    kept = mine | _in_quarantine(circle, at) | circle.given_up
    missing = circle.acknowledged[at] - kept
    for cluster in circle.both if missing else ():
        there = {record.number: offset for offset, record in (cluster.log(at) if at in cluster.ends else ())}
        listed = _listed(views, at, cluster) if missing & there.keys() else []
        for number in sorted(missing & there.keys()):
            if not any(begin <= there[number] < end for begin, end in listed):
                where = f"at {there[number]} of {at} at {cluster.name}"
                circle.violated(LISTED, f"record {number} is only {where}, which no list has ({when})")
        missing = missing - there.keys()
    for number in sorted(missing):
        circle.violated(LISTED, f"record {number} of {at} is nowhere ({when})")


def _in_quarantine(circle: Circle, at: MirrorPartition) -> set[int]:
    into = MirrorPartition(quarantine_topic(at.topic), at.partition)
    return {record.number for each in circle.both if into in each.ends for _, record in each.log(into)}


def _listed(views: tuple[StateView, ...], at: MirrorPartition, cluster: RecordedCluster) -> list[tuple[int, int]]:
    """The offsets of a log that the product reports to be where the mirror does not copy from.

    What producers write while a reversal has lifted a near fence is found by the reversal itself, which is withdrawn
    then, or by the survey after that.
    """
    found = []
    for view in views:
        move = view.move(DR)
        if move is not None and move.status is not MoveStatus.MOVED and move.cluster_id == cluster.id:
            surveyed = [each.at for each in view.tails(DR) if each.topic == at.topic]
            if move.status is not MoveStatus.WITHDRAWN or max(surveyed, default=0) <= move.at:
                return [_WHOLE]
        if view.mirror(DR) is None:
            continue
        open_ones = [*pending(view, DR), *left_undecided(view, DR)]
        if any(each.topic == at.topic and each.stage is TailStage.UNKNOWN for each in open_ones):
            return [_WHOLE]
        found += [span for stage, span in tails_on_record(view, at, cluster) if stage is not TailStage.DONE]
    return found
