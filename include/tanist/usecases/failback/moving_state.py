"""The state of a mirror is written to its new destination, and locked there until its old one has a forwarding record.

`lock/NAME` of the old destination excludes other commands there only. So the move itself is part of the state: at the
new destination it says that the mirror arrives, and every change is refused until `end_arrival` deletes it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tanist.domain.circle import CircleStage, locate
from tanist.domain.errors import MirrorExists, Refused, TanistError
from tanist.domain.failback.pending import without_findings
from tanist.domain.failback.reversal import OffsetsOverlap
from tanist.domain.kept_fences import kept_after
from tanist.domain.moves import MoveStatus, left_over, opposite
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import about, refuse
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, PromotionEpoch
from tanist.domain.state_record import Tombstone
from tanist.usecases import snapshot
from tanist.usecases.failback.reversal import PURPOSE
from tanist.usecases.lock import mirror_lock
from tanist.usecases.mirrors import forget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.failback.reversal import ReturningTopic
    from tanist.domain.moves import TopicBefore
    from tanist.domain.names import MirrorName
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.reversing import Reversing


_T = TypeVar("_T")


class LogChanged(Refused):
    name = "LOG_CHANGED_SINCE_SURVEY"
    operator_action = "stop these producers, see `tanist failback survey`, then plan the reversal again"


def copy_starts(
    topics: Sequence[ReturningTopic], before: Mapping[str, TopicBefore], old: Cluster, by: Deadline
) -> dict[MirrorPartition, int]:
    """The end of each log at the old source. What lies below is history, which nothing compares any more.

    Coordinators and producers that try again may have added markers since the survey; nobody may have added records.

    Raises:
        LogChanged: a log has more than markers since it was surveyed, or less. OffsetsOverlap: it has used offsets that
        the new primary's own records have. Problems: several of these. CouldNotTell, BrokerError: a log cannot be read.
    """
    surveyed = {MirrorPartition(name, n): end for name, was in before.items() for n, end in enumerate(was.ends)}
    free_from = {MirrorPartition(each.topic, n): end for each in topics for n, end in enumerate(each.free_from)}
    ends = _known(old.logs.true_ends(list(free_from), by))
    grown = {at: (surveyed.get(at, 0), end) for at, end in ends.items() if end > surveyed.get(at, 0)}
    written = {at: grown[at] for at, control in _known(old.logs.only_control(grown, by)).items() if not control}
    problems = [*_changes(ends, surveyed, written, old.name), *_overlaps(ends, free_from, old.name)]
    if problems:
        refuse(problems)
    return ends


def _changes(
    ends: Mapping[MirrorPartition, int],
    surveyed: Mapping[MirrorPartition, int],
    written: Mapping[MirrorPartition, tuple[int, int]],
    where: str,
) -> Iterator[LogChanged]:
    for at, end in ends.items():
        if at in written:
            begin, _ = written[at]
            yield LogChanged(f"{at}: producers have written to offsets {begin} to {end - 1} at {where!r}")
        elif end < surveyed.get(at, 0):
            yield LogChanged(f"{at} ends at {end} at {where!r}, and ended at {surveyed[at]} when it was surveyed")


def _overlaps(
    ends: Mapping[MirrorPartition, int], free_from: Mapping[MirrorPartition, int], where: str
) -> Iterator[OffsetsOverlap]:
    for at, end in ends.items():
        if end > free_from[at]:
            why = f"{at} ends at {end} at {where!r}, and only offsets from {free_from[at]} on are free"
            yield about(at.topic, OffsetsOverlap(why))


def _known(answers: Mapping[MirrorPartition, _T | TanistError]) -> dict[MirrorPartition, _T]:
    """Raises the first error among the answers."""
    found = {}
    for at, answer in answers.items():
        if isinstance(answer, TanistError):
            raise answer
        found[at] = answer
    return found


def make_ready(of: Reversing) -> None:
    """Create what the state is written to, while the source fence still stands: that takes seconds."""
    for topic in (OFFSETS_TOPIC, STATE_TOPIC):
        of.old.open_store(topic, None, of.command.by, create=True).close()


def settle(of: Reversing) -> None:
    """Write the mirror's state to its new destination, in one transaction, with the move that locks it there.

    The store is opened before the lock is confirmed: a command that lost the lock to another one is fenced here, or
    finds out there. What an earlier attempt has written before it was fenced stays: workers copy with its producer ids.
    Raises MirrorExists.
    """
    by, mirror = of.command.by, of.spec.mirror
    of.checkpoint("ready")
    with closing(of.old.open_store(STATE_TOPIC, mirror, by, create=True)) as store:
        view = store.catch_up(by)
        if (there := view.mirror(mirror)) is not None and there.mirror_id != of.spec.mirror_id:
            raise MirrorExists(f"{of.old.name!r} has another mirror {mirror!r}")
        of.lock.confirm()
        if locate(mirror, of.lock.view(), view).stage is CircleStage.HANDED_OVER:
            return
        records = _records(of, copy_starts(of.reversal.topics, of.before(), of.old, by))
        arrival = replace(of.move, status=MoveStatus.MOVING, producer_ids=())
        keys = {each.key for each in (*records, arrival)}
        gone = {*left_over(view.keys_of(mirror))} & set(view) - keys
        of.checkpoint("settling")
        store.append([*(Tombstone(key) for key in sorted(gone)), *records, arrival], by)


def _records(of: Reversing, ends: Mapping[MirrorPartition, int]) -> list[StateRecord]:
    now, view = of.command.clock.now(), of.lock.view()
    data_id, marker_id, start_id = (of.old.logs.new_producer_id(of.command.by) for _ in range(3))
    spec = replace(opposite(of.spec), data_id=data_id, marker_id=marker_id, start_id=start_id)
    plans = {each.name: each for each in of.topic_plans(of.names)}
    topics = [
        replace(
            plans[each.topic].desired(spec, each.promotion_epoch, now),
            copy_starts=tuple(ends[MirrorPartition(each.topic, n)] for n in range(len(each.free_from))),
            denied=each.denied,
            given_at_source=_given(view, spec.mirror, each.topic),
        )
        for each in of.reversal.topics
    ]
    epochs = [_epoch(view, topic) for topic in view.removed(spec.mirror)]
    kept = kept_after(view, of.spec, set(of.returning), now)
    again = {each.topic for each in of.reversal.topics if each.recreation is not None}
    along = without_findings(view.taken_along(spec.mirror), again, of.spec.source_cluster_id)
    return [spec, *topics, *epochs, *along, *kept]


def _epoch(view: StateView, topic: TopicDesired) -> PromotionEpoch:
    """Without the topic id: that was the id of the topic at the other cluster."""
    count = view.promotions(topic.mirror, topic.topic)
    return PromotionEpoch(mirror=topic.mirror, mirror_id=topic.mirror_id, topic=topic.topic, count=count)


def _given(view: StateView, mirror: MirrorName, topic: str) -> tuple[AclEntry, ...]:
    """What the failover has created at the new primary, which is the source from now on."""
    found = view.topic(mirror, topic)
    return found.given or () if found is not None else ()


def end_arrival(home: Cluster, mirror: MirrorName, command: CommandContext) -> bool:
    """Unlock the mirror at its new destination, once its old one has the forwarding record; False: it is not locked.

    Raises:
        UnknownMirror: it has moved on, or was deleted. MirrorLocked: another command changes it.
    """
    view = home.state(STATE_TOPIC, command.by)
    snapshot.spec_of(view, mirror, home.name)
    if locate(mirror, view).arrival is None:
        return False
    with mirror_lock(home, mirror, PURPOSE, command) as lock:
        if (move := locate(mirror, lock.view()).arrival) is not None:
            lock.append([Tombstone(move.key)])
    return True


# ── behind the point of no return ─────────────────────────────────────────────────────────────────────────────────


def forget_state(of: Reversing) -> None:
    """Offset maps and positions of groups."""
    for topic in (OFFSETS_TOPIC, GROUPS_TOPIC):
        of.lock.confirm()
        forget.everything(of.primary, of.lock, topic)
    of.checkpoint("forgotten")


def leave(of: Reversing) -> None:
    """The rest, in one transaction with the forwarding record; the lock is gone after that."""
    of.lock.leave(replace(of.move, status=MoveStatus.MOVED, at=of.command.clock.now()))
    of.checkpoint("left")


def arrive(of: Reversing) -> None:
    """The mirror is unlocked at its new destination."""
    end_arrival(of.old, of.spec.mirror, of.command)
