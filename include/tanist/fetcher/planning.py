"""What a worker should do, decided from the state topic, its ownership and the reports of its threads. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.compaction import DEFAULT_DELETE_RETENTION_MS, DELETE_RETENTION, Holes, holes_of, is_compacted
from tanist.domain.errors import SourceTopicRecreated
from tanist.domain.followed import is_followed
from tanist.domain.lag import is_loss_accepted
from tanist.domain.limits import limit_keys, shares
from tanist.domain.names import SourcePartition, topic_id_of, topic_id_text
from tanist.domain.records import PartitionObserved
from tanist.domain.small_batches import may_merge
from tanist.domain.state_record import state_partition_of
from tanist.domain.states import (
    RESUMED_ROW,
    SOURCE_DELETED_ROW,
    TAKEN_IN_PAUSED_ROW,
    DesiredState,
    Finding,
    MirrorState,
    next_row,
)
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.fetcher.assignment import Assigned, PartitionKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from uuid import UUID

    from tanist.domain.limits import LimitKey, LimitShare
    from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assignment, Report

TELL_AFTER_SECONDS: Final = 3.0
"""An error that recovers by itself is recorded only if it lasts this long."""
_KNOWS_PROGRESS: Final = frozenset({MirrorState.FAILED, MirrorState.UNKNOWN})
"""States in which the record says how far a partition was copied; UNKNOWN: its topic was detached, and added again."""
COPYING: Final = frozenset({MirrorState.PREPARING, MirrorState.MIRRORING, MirrorState.PAUSING})


@dataclass(frozen=True)
class Owned:
    """A partition that this worker owns."""

    spec: MirrorSpec
    topic: TopicDesired
    partition: MirrorPartition
    state_partition: int

    @cached_property
    def at_source(self) -> SourcePartition:
        """What it is copied from."""
        return self.spec.names.at_source(self.partition)

    @cached_property
    def key(self) -> PartitionKey:
        return PartitionKey(self.spec.mirror, self.partition)

    @cached_property
    def record_key(self) -> str:
        """Of its `PartitionObserved`."""
        return f"{PartitionObserved.stored_as}/{self.spec.mirror}/{self.partition.topic}/{self.partition.partition}"


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by both clocks: ms since 1970 for records, monotonic seconds for durations."""

    epoch: EpochMs
    monotonic: float


def owned(view: StateView, state_partitions: frozenset[int], count: int) -> tuple[Owned, ...]:
    """The partitions of all mirrors that Tanist copies, and that fall into `state_partitions` of `count`."""
    return tuple(
        Owned(spec, topic, partition, number)
        for spec in filterfalse(is_followed, view.mirrors())
        for topic in view.topics(spec.mirror)
        for partition in topic.all_partitions()
        if (number := state_partition_of(spec.mirror, partition, count)) in state_partitions
    )


def next_observed(
    mine: Owned, held: PartitionObserved | None, report: Report, claim_epoch: int, now: Moment
) -> PartitionObserved | None:
    """The new record of a partition; None: nothing has changed."""
    if mine.topic.restored:
        return None
    state = held.state if held is not None else MirrorState.UNKNOWN
    if held is not None and state is MirrorState.STOPPED and _stays_stopped(mine.topic, held, report):
        return None
    row = next_row(_desired(mine.topic, held), state, _finding(mine, held, report))
    if row is None:
        return _trouble(held, report, claim_epoch, now) or _later_epoch(held, report, claim_epoch, now)
    why = report.error if row.cause in {Finding.BROKEN, Finding.DELETED} else None
    new = PartitionObserved(
        mirror=mine.spec.mirror,
        mirror_id=mine.spec.mirror_id,
        partition=mine.partition,
        state=row.after,
        row=row.number,
        reason=why.reason if why is not None else report.note or row.reason,
        error=why.name if why is not None else None,
        last_mirrored_epoch=_epoch(held, report),
        claim_epoch=claim_epoch,
        promotion_epoch=mine.topic.promotion_epoch,
        topic_id=_copied_to(held, report),
        resumes=mine.topic.resumes,
        at=now.epoch,
    )
    return _around_a_failure(new, held, report)


def _desired(topic: TopicDesired, held: PartitionObserved | None) -> DesiredState:
    """The desired state to follow now. One that was resumed after a failure pauses once both logs are compared."""
    comparing = held is not None and held.row == RESUMED_ROW
    return DesiredState.MIRRORING if comparing and topic.desired is DesiredState.PAUSED else topic.desired


def _finding(mine: Owned, held: PartitionObserved | None, report: Report) -> Finding | None:
    if held is not None and is_loss_accepted(mine.spec, held):
        return Finding.ACCEPTED
    return Finding.RESUMED if _is_resumed(mine.topic, held, report) else report.finding


def _is_resumed(topic: TopicDesired, held: PartitionObserved | None, report: Report) -> bool:
    """Whether a person has resumed the topic since the partition FAILED, once for each request.

    A fetcher thread that still reports the failure has not released the partition yet: its report is not an answer to
    the request.
    """
    failed = held is not None and held.state is MirrorState.FAILED and held.resumes != topic.resumes
    return failed and topic.desired is DesiredState.MIRRORING and report.finding is not Finding.BROKEN


def _around_a_failure(new: PartitionObserved, held: PartitionObserved | None, report: Report) -> PartitionObserved:
    """`new` with what must not be forgotten while nothing is copied: how far it was, and why it is not a copy."""
    if new.state is MirrorState.FAILED:
        return replace(
            new,
            copied_until=report.position if report.position is not None or held is None else held.copied_until,
            record_until=report.record_until if report.record_until is not None or held is None else held.record_until,
            record_epoch=report.record_epoch if report.record_epoch is not None or held is None else held.record_epoch,
        )
    if held is None or held.state not in _KNOWS_PROGRESS or new.state is not MirrorState.PREPARING:
        return new
    copied = replace(
        new, copied_until=held.copied_until, record_until=held.record_until, record_epoch=held.record_epoch
    )
    return (
        replace(copied, error=held.error, reason=f"{new.reason}; {held.reason}") if new.row == RESUMED_ROW else copied
    )


def _stays_stopped(topic: TopicDesired, held: PartitionObserved, report: Report) -> bool:
    """Whether a STOPPED partition does. One whose source topic was deleted waits for a person, or for a new topic."""
    if topic.desired is DesiredState.REMOVED or topic.promotion_epoch < held.promotion_epoch:
        return True  # in the second case its promotion was read before the wish that goes with it
    deleted = held.row == SOURCE_DELETED_ROW and topic.promotion_epoch == held.promotion_epoch
    return deleted and report.finding is not Finding.BROKEN


def _trouble(held: PartitionObserved | None, report: Report, claim_epoch: int, now: Moment) -> PartitionObserved | None:
    """The same state with another reason: an error that lasts, or that has passed, or what recovery has to say."""
    if held is None or held.state is MirrorState.FAILED or held.row == RESUMED_ROW:
        return None
    error, since = report.error, report.failing_since
    lasting = error is not None and since is not None and now.monotonic - since >= TELL_AFTER_SECONDS
    if error is not None and lasting and held.error != error.name:
        return replace(held, error=error.name, reason=error.reason, claim_epoch=claim_epoch, at=now.epoch)
    if error is None and held.error is not None and report.finding is not None:
        return replace(held, error=None, reason=report.note, claim_epoch=claim_epoch, at=now.epoch)
    is_copied = error is None and held.state is MirrorState.MIRRORING and report.finding is Finding.ALIGNED
    if is_copied and report.note not in {"", held.reason}:
        return replace(held, reason=report.note, claim_epoch=claim_epoch, at=now.epoch)
    if held.state is MirrorState.MIRRORING and held.topic_id != (topic := _copied_to(held, report)):
        return replace(held, topic_id=topic, claim_epoch=claim_epoch, at=now.epoch)
    return None


def _later_epoch(
    held: PartitionObserved | None, report: Report, claim_epoch: int, now: Moment
) -> PartitionObserved | None:
    """The same state, once records of a later leader epoch of the source are copied: whoever fails over reads it."""
    if (
        held is None
        or held.state is not MirrorState.MIRRORING
        or (epoch := _epoch(held, report)) <= held.last_mirrored_epoch
    ):
        return None
    return replace(held, last_mirrored_epoch=epoch, claim_epoch=claim_epoch, at=now.epoch)


def _copied_to(held: PartitionObserved | None, report: Report) -> str:
    """The id of the destination topic whose log was last compared."""
    if report.finding is Finding.ALIGNED and report.topic_id is not None:
        return topic_id_text(report.topic_id)
    return held.topic_id if held is not None else ""


def _epoch(held: PartitionObserved | None, report: Report) -> int:
    return max(report.last_mirrored_epoch, held.last_mirrored_epoch if held is not None else -1)


def merging(view: StateView, now: EpochMs) -> frozenset[MirrorName]:
    """The mirrors whose small batches are merged. Of what partitions are assigned by, this alone changes by time."""
    workers = view.workers()
    return frozenset(spec.mirror for spec in view.mirrors() if may_merge(spec, workers, now))


def assigned(
    mine: Iterable[Owned],
    view: StateView,
    epochs: Mapping[int, int],
    former: Mapping[PartitionKey, Assigned],
    merged: Collection[MirrorName],
) -> dict[PartitionKey, Assigned]:
    """The partitions to assign to threads. Unchanged assignments are the same objects as in `former`.

    `merged`: as `merging` says.
    """
    found: dict[PartitionKey, Assigned] = {}
    settings: dict[tuple[MirrorName, str], Mapping[str, Any]] = {}
    for each in mine:
        held = view.observed(each.spec.mirror, each.partition)
        if held is None or not is_copied(each.topic, held) or each.state_partition not in epochs:
            continue
        draining = held.state is MirrorState.PAUSING or _begins_paused(each, held)
        topic = each.spec.mirror, each.topic.topic
        if topic not in settings:
            settings[topic] = _settings(each.spec, each.topic)
        new = Assigned(
            each.spec,
            each.partition,
            each.state_partition,
            epochs[each.state_partition],
            draining,
            merges=each.spec.mirror in merged,
            copy_start=each.topic.copy_start(each.partition.partition),
            source_start=each.topic.source_start(each.partition.partition),
            **settings[topic],
        )
        old = former.get(each.key)
        found[each.key] = old if old == new else _with_progress(new, view)
    return found


def is_copied(topic: TopicDesired, held: PartitionObserved | None) -> bool:
    """Whether the worker that owns a partition of `topic` has a thread copy it, as it was last `held`."""
    return held is not None and held.state in COPYING and not topic.restored


def limit_shares(mine: Iterable[Owned], view: StateView, assignment: Assignment) -> dict[LimitKey, LimitShare]:
    """This worker's share in each limit, by the partitions that it owns. `assignment`: of its threads."""
    owned_partitions: defaultdict[MirrorName, Counter[str]] = defaultdict(Counter)
    specs: dict[MirrorName, MirrorSpec] = {}
    for each in mine:
        if each.spec.limit or each.spec.topic_limits:
            specs[each.spec.mirror] = each.spec
            owned_partitions[each.spec.mirror][each.topic.topic] += 1
    if not specs:
        return {}
    threads = Counter(
        key for some in assignment.values() for key in {key for one in some.values() for key in one.limits}
    )
    found: dict[LimitKey, LimitShare] = {}
    for mirror, spec in specs.items():
        found |= shares(spec, view.topics(mirror), owned_partitions[mirror], threads)
    return found


def _settings(spec: MirrorSpec, topic: TopicDesired) -> Mapping[str, Any]:
    """What all partitions of a topic are assigned with."""
    configs = dict(topic.deferred_configs)
    compacted = is_compacted(configs.get(CLEANUP_POLICY, ""))
    return {
        "compacted": compacted,
        "holes": Holes.MARKERS if spec.is_mapped else holes_of(spec.holes, compacted=compacted),
        "source_topic_id": topic_id_of(topic.source_topic_id),
        "tombstones_kept_ms": int(configs.get(DELETE_RETENTION, DEFAULT_DELETE_RETENTION_MS)),
        "limits": limit_keys(spec, topic.topic),
    }


def _begins_paused(mine: Owned, held: PartitionObserved) -> bool:
    """Whether a mapped copy is paused from the beginning: it must not begin before it is resumed."""
    paused = mine.spec.is_mapped and mine.topic.desired is DesiredState.PAUSED
    return paused and held.state is MirrorState.PREPARING and held.row == TAKEN_IN_PAUSED_ROW


def _with_progress(new: Assigned, view: StateView) -> Assigned:
    """With what the worker before has stored."""
    end = view.source_end(new.spec.mirror, new.state_partition, new.at_source)
    return new if end is None else replace(new, caught_up_at=end.caught_up_at, copied_until=end.copied_until)


def recreated(topic: str, added: UUID | None, found: UUID | None) -> SourceTopicRecreated | None:
    """Whether the source's topic was re-created since it was added. None: brokers older than 2.8 do not tell an id."""
    if None in {added, found} or added == found:
        return None
    then, now = (topic_id_text(each) for each in (added, found) if each is not None)
    return SourceTopicRecreated(f"topic {topic!r} has id {now}, but had {then} when it was added")
