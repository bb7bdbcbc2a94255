"""The state topics of a cluster as they were saved, and what becomes of the records when they are restored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tanist.domain.errors import CouldNotTell, Misconfigured, Refused, UnknownMirror
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, FenceStatus, restored_fence
from tanist.domain.kept_fences import fences_with
from tanist.domain.names import MirrorName
from tanist.domain.records import (
    STATE_TOPIC,
    Claim,
    FailoverRun,
    Fences,
    MirrorLock,
    MirrorSpec,
    PartitionObserved,
    PromotionEpoch,
    RunStatus,
    TopicDesired,
)
from tanist.domain.state_record import mirror_of
from tanist.domain.states import MIRROR_STATES, RESTORED_ROW, SOURCE_DELETED_ROW, DesiredState, MirrorState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView

FORMAT: Final = "tanist-state"
VERSION: Final = 1
"""Of the file. A reader refuses a newer one."""
_REASON: Final = {row.number: row.reason for row in MIRROR_STATES}
_PROMOTED_ROW: Final = 302


class StateFileInvalid(Misconfigured):
    name = "STATE_FILE_INVALID"
    operator_action = "give a complete file that `tanist state export` has written; nothing was changed"


class StateOfAnotherCluster(Refused):
    name = "STATE_OF_ANOTHER_CLUSTER"
    operator_action = "restore it to the cluster that it was exported from; nothing was changed"


class StateNewer(Refused):
    name = "STATE_IS_NEWER"
    operator_action = "what is there was written since the export, so it is kept; nothing was changed"


class StateOutdated(Refused):
    name = "STATE_OUTDATED"
    operator_action = (
        "see `tanist mirrors list` for the cluster that has the mirror now; if none has it, `tanist state rebuild` "
        "registers it from its logs, and --mirror restores the other mirrors of the file; nothing was changed"
    )


class SourceStateUnknown(CouldNotTell):
    name = "SOURCE_STATE_UNKNOWN"
    operator_action = (
        "make the source answer, or give --without-source: workers then ask it before they copy; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """The records of each state topic of a cluster, by topic, as they were at `exported_at`."""

    cluster: str
    cluster_id: str
    exported_at: EpochMs
    records: Mapping[str, tuple[StateRecord, ...]]

    @property
    def count(self) -> int:
        """Of all records."""
        return sum(map(len, self.records.values()))

    def of_mirrors(self, topic: str) -> dict[MirrorName, tuple[StateRecord, ...]]:
        """The records of one state topic that belong to mirrors, by mirror."""
        found: defaultdict[MirrorName, list[StateRecord]] = defaultdict(list)
        for record in self.records.get(topic, ()):
            if (mirror := mirror_of(record.key)) is not None:
                found[MirrorName(mirror)].append(record)
        return {mirror: tuple(found[mirror]) for mirror in sorted(found)}

    def only(self, mirrors: Collection[str]) -> Self:
        """Without the records of other mirrors. Raises UnknownMirror: the file has none of that name."""
        known = {mirror for topic in self.records for mirror in self.of_mirrors(topic)}
        if unknown := sorted(set(mirrors) - known):
            raise UnknownMirror(f"the file has no mirror {unknown[0]!r}; it has: {', '.join(sorted(known)) or 'none'}")
        kept = {
            topic: tuple(each for each in records if (of := mirror_of(each.key)) is None or of in mirrors)
            for topic, records in self.records.items()
        }
        return replace(self, records=kept)

    def claims(self) -> tuple[Claim, ...]:
        """The last claims of the state partitions."""
        return tuple(each for each in self.records.get(STATE_TOPIC, ()) if isinstance(each, Claim))


class PromotedSince(NamedTuple):
    """A topic that was failed over after its state was saved: its promotion epoch since then, and what shows it."""

    promotion_epoch: int
    why: str


def was_reversed(at_source: StateView, spec: MirrorSpec) -> bool:
    """Whether the source of `spec` is the destination of the mirror now."""
    there = at_source.mirror(spec.mirror)
    return there is not None and (there.id == spec.id or there.source_cluster_id == spec.destination_cluster_id)


def led_elsewhere(at_source: StateView, spec: MirrorSpec, topic: str, known: int) -> TopicLineage | None:
    """The last promotion of a topic, if another cluster than the destination of `spec` took over at it.

    `at_source`: of the state topic of the source; `known`: the promotion epoch in the saved state. None: the source
    knows of no later promotion, or of one to the destination.
    """
    last = max(at_source.lineage(spec.mirror, topic), key=lambda each: each.promotion_epoch, default=None)
    if last is None or last.promotion_epoch <= known or last.new_cluster_id == spec.destination_cluster_id:
        return None
    return last


def leads_to_the_mirror(move: MirrorMove, there: StateView, cluster_id: str) -> bool:
    """Whether the cluster that a forwarding record of `cluster_id` names has the mirror. `there`: its state topic.

    A mirror that was rebuilt there has another id, and copies from `cluster_id`.
    """
    spec = there.mirror(move.mirror)
    return spec is not None and (spec.mirror_id == move.mirror_id or spec.source_cluster_id == cluster_id)


def not_the_old_source(at_source: StateView, spec: MirrorSpec, topic: str, count: int) -> str | None:
    """Why a topic that was restored as failed over must not be fenced at its source; None: it must be.

    `count`: its promotions, as far as the destination knows.
    """
    if was_reversed(at_source, spec):
        return f"mirror {spec.mirror!r} was reversed after the export: {spec.source!r} is its destination now"
    last = led_elsewhere(at_source, spec, topic, count - 1)
    if last is None:
        return None
    return f"cluster {last.new_cluster_id} took over again after the export, at promotion {last.promotion_epoch}"


def compared(view: StateView, mirror: MirrorName) -> dict[str, StateRecord]:
    """What a cluster has of a mirror, as far as only people and transitions change it."""
    return {key: view[key] for key in view.keys_of(mirror) if view[key].policy.compared}


def conflict(
    present: Mapping[str, StateRecord], saved: Iterable[StateRecord], restored: Mapping[str, StateRecord]
) -> str | None:
    """The first key at which a cluster has something else than what was saved of a mirror; None: it has the same.

    `present`: what the cluster has, see `compared`; `restored`: the same records as they are restored.
    """
    before = {record.key: record for record in saved}
    wanted = {key for key, record in {**before, **restored}.items() if record.policy.compared}
    others = (key for key in sorted(present) if present[key] not in (before.get(key), restored.get(key)))
    return next(others, min(wanted - present.keys(), default=None))


def as_restored(
    records: Iterable[StateRecord],
    promoted: Mapping[str, PromotedSince],
    lifted: Iterable[str],
    exported_at: EpochMs,
) -> dict[str, StateRecord]:
    """What is written of one mirror, by key: its topics are STOPPED until a person resumes them.

    `promoted`: by topic, those that were failed over since; they have left the mirror, and their source fences are
    pending. `lifted`: topics whose recorded source fence is not in force any more. Running it again on the same records
    gives the same.
    """
    taken = tuple(records)
    gone = frozenset(lifted)
    topics = {each.topic: each for each in taken if isinstance(each, TopicDesired)}
    stopped = {
        name for name, each in topics.items() if each.desired is not DesiredState.REMOVED and name not in promoted
    }
    found = {each.key: _restored(each, stopped, promoted, gone) for each in taken}
    found |= {each.key: each for each in _observed(topics.values(), found, stopped, promoted, exported_at)}
    for name, since in promoted.items():
        topic = topics[name]
        counted = PromotionEpoch(
            mirror=topic.mirror, mirror_id=topic.mirror_id, topic=name, count=since.promotion_epoch
        )
        found[counted.key] = counted
    found |= {each.key: each for each in _fences(taken, found, promoted, exported_at)}
    return found


def _fences(
    records: Iterable[StateRecord],
    found: Mapping[str, StateRecord],
    promoted: Iterable[str],
    at: EpochMs,
) -> Iterator[Fences]:
    """The source fences of the mirror, with those of promoted topics."""
    for spec in (each for each in records if isinstance(each, MirrorSpec)):
        known = found.get(f"fence/{spec.mirror}")
        held = {each.topic: each for each in known.topics} if isinstance(known, Fences) else {}
        there = [spec.names.topic_at_source(topic) for topic in promoted if spec.fence_source]
        changed = [restored_fence(topic, held.get(topic)) for topic in there]
        if (fences := fences_with(held.values(), changed, spec, at)) is not None:
            yield fences


def _restored(
    record: StateRecord, stopped: set[str], promoted: Mapping[str, PromotedSince], lifted: frozenset[str]
) -> StateRecord:
    match record:
        case TopicDesired() if record.topic in stopped:
            return replace(record, desired=DesiredState.PAUSED, restored=True)
        case TopicDesired() if record.topic in promoted:
            return replace(record, desired=DesiredState.REMOVED, restored=False)
        case MirrorLock():
            return replace(record, holder="")
        case FailoverRun(status=RunStatus.RUNNING):
            return replace(record, runner="")
        case Fences():
            topics = (
                replace(each, status=FenceStatus.LIFTED)
                if each.topic in lifted and each.status in HOLDS_PRODUCERS_OFF
                else each
                for each in record.topics
            )
            return replace(record, topics=tuple(topics))
        case _:
            return record


def _observed(
    topics: Iterable[TopicDesired],
    found: Mapping[str, StateRecord],
    stopped: set[str],
    promoted: Mapping[str, PromotedSince],
    at: EpochMs,
) -> Iterator[PartitionObserved]:
    """The states of all partitions of the topics that are stopped, or promoted."""
    for topic in topics:
        since = promoted.get(topic.topic)
        if topic.topic not in stopped and since is None:
            continue
        for partition in topic.all_partitions():
            blank = stopped_partition(topic, partition, at)
            if since is not None:
                blank = replace(blank, row=_PROMOTED_ROW, reason=since.why, promotion_epoch=since.promotion_epoch)
            held = found.get(blank.key)
            if not isinstance(held, PartitionObserved) or held.mirror_id != topic.mirror_id:
                yield blank
            elif held.row != SOURCE_DELETED_ROW or since is not None:
                yield replace(
                    held,
                    state=blank.state,
                    row=blank.row,
                    reason=blank.reason,
                    error=None,
                    promotion_epoch=blank.promotion_epoch,
                )


def stopped_partition(topic: TopicDesired, at: MirrorPartition, now: EpochMs) -> PartitionObserved:
    """A partition that waits for a person."""
    return PartitionObserved(
        mirror=topic.mirror,
        mirror_id=topic.mirror_id,
        partition=at,
        state=MirrorState.STOPPED,
        row=RESTORED_ROW,
        reason=_REASON[RESTORED_ROW],
        promotion_epoch=topic.promotion_epoch,
        at=now,
    )
