"""A view of a state topic: the latest record of each key, with queries by name."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from tanist.domain.acl_deletion import AclsDeleted
from tanist.domain.anchors import OffsetAnchorsWritten
from tanist.domain.detached_record import TopicDetached
from tanist.domain.duties import DutyRun
from tanist.domain.given_acls import AclsGiven
from tanist.domain.groups_synced import GroupsSynced
from tanist.domain.kept_plan import KeptPlan
from tanist.domain.latest import is_of, take
from tanist.domain.lineage import TopicLineage
from tanist.domain.losses import LostOffsets, TombstonesMissed
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.moves import UNFINISHED, KeptFences, MirrorMove, TopicBefore
from tanist.domain.records import (
    Claim,
    CopiedUpTo,
    FailoverRun,
    Fences,
    GroupPosition,
    GroupSyncStatus,
    MirrorLock,
    MirrorSpec,
    OffsetRangeWritten,
    PartitionObserved,
    PromotionEpoch,
    RunStatus,
    TopicDesired,
    WorkerAlive,
)
from tanist.domain.source_ends import EndsConfirmed, SourceEnds
from tanist.domain.state_record import MirrorRecord, StateRecord, mirror_of
from tanist.domain.states import DesiredState
from tanist.domain.tails import FindingsAccepted, ReplayProgress, RetentionHeld, TailDecision, TopicTails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import MirrorName, MirrorPartition, SourceOffset, SourcePartition
    from tanist.domain.source_ends import SourceEnd

_R = TypeVar("_R", bound=StateRecord)
_M = TypeVar("_M", bound=MirrorRecord)


class StoredProgress(NamedTuple):
    """`copied_until`: all before is copied. `record`: until and leader epoch of the last record. None: not known."""

    copied_until: SourceOffset | None
    record: tuple[SourceOffset, int] | None


class StateView(Mapping[str, StateRecord]):
    """A frozen view of one state topic. Queries by mirror name return only records of the mirror that has the name now.

    Records of an earlier mirror of that name are left out if the view contains the current mirror's spec, or is given
    it (`spec`): `__mirror_offsets` and `__mirror_groups` have no specs.
    """

    __slots__ = ("_by_kind", "_records", "_topics")

    def __init__(self, records: Mapping[str, StateRecord] | None = None) -> None:
        self._records = dict(records or {})
        self._by_kind: dict[type[StateRecord], list[StateRecord]] | None = None
        self._topics: dict[MirrorName | None, tuple[TopicDesired, ...]] = {}

    def __getitem__(self, key: str) -> StateRecord:
        return self._records[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def items(self) -> ItemsView[str, StateRecord]:
        """As `Mapping` has it, without a call for each key."""
        return self._records.items()

    @property
    def latest(self) -> Callable[[str], StateRecord | None]:
        """The record of a key, whichever mirror of its name it belongs to; without a call for each layer of `get`."""
        return self._records.get

    # ── mirrors and topics ────────────────────────────────────────────────────────────────────────────────────────

    def mirror(self, name: str) -> MirrorSpec | None:
        return self._found(MirrorSpec, f"mirror/{name}")

    def mirrors(self) -> tuple[MirrorSpec, ...]:
        """All mirrors, by name."""
        return tuple(sorted(self._every(MirrorSpec), key=lambda each: each.mirror))

    def wishes(self) -> tuple[MirrorSpec | TopicDesired, ...]:
        """All mirrors and all topics, in no order: what workers follow."""
        return (*self._every(MirrorSpec), *self._every(TopicDesired))

    def topic(self, mirror: MirrorName, name: str) -> TopicDesired | None:
        return self._of(mirror, self._found(TopicDesired, f"topic/{mirror}/{name}"))

    def topics(self, mirror: MirrorName | None = None) -> tuple[TopicDesired, ...]:
        """The topics of `mirror` (of all mirrors if None), those that have left it too, by key."""
        if (found := self._topics.get(mirror)) is None:  # one look asks some forty times, and a mirror has thousands
            found = tuple(sorted(self._all_of(TopicDesired, mirror), key=lambda each: each.key))
            self._topics[mirror] = found
        return found

    def mirrored(self, mirror: MirrorName | None = None) -> tuple[TopicDesired, ...]:
        """The topics that are in a mirror, or in any mirror; not those that have left it."""
        return tuple(topic for topic in self.topics(mirror) if topic.desired is not DesiredState.REMOVED)

    def removed(self, mirror: MirrorName) -> tuple[TopicDesired, ...]:
        """The topics that have left `mirror`: they were failed over, or taken out."""
        return tuple(topic for topic in self.topics(mirror) if topic.desired is DesiredState.REMOVED)

    def detached(self, mirror: MirrorName | None = None) -> tuple[TopicDetached, ...]:
        """What is stored of topics that were detached, of all mirrors if None; see `domain.detached`."""
        return tuple(self._all_of(TopicDetached, mirror))

    def of_other_mirrors(self, mirror: MirrorName) -> dict[str, MirrorName]:
        """Topics of this destination that mirrors other than `mirror` have, and which mirror has each."""
        return {topic.topic: topic.mirror for topic in self.mirrored() if topic.mirror != mirror}

    def promotions(self, mirror: MirrorName, topic: str) -> int:
        """How many promotions of a topic have been counted."""
        found = self._of(mirror, self._found(PromotionEpoch, f"generation/{mirror}/{topic}"))
        return found.count if found else 0

    def promotion(self, mirror: MirrorName, topic: str) -> PromotionEpoch | None:
        return self._of(mirror, self._found(PromotionEpoch, f"generation/{mirror}/{topic}"))

    def copied_up_to(self, mirror: MirrorName, topic: str) -> CopiedUpTo | None:
        return self._of(mirror, self._found(CopiedUpTo, f"copied/{mirror}/{topic}"))

    def lineage(self, mirror: MirrorName | None, topic: str | None = None) -> tuple[TopicLineage, ...]:
        """What is recorded of the promotions of a topic, or of all topics, by topic and promotion epoch.

        `mirror`: None: of all mirrors.
        """
        found = (each for each in self._all_of(TopicLineage, mirror) if topic in {None, each.topic})
        return tuple(sorted(found, key=lambda each: (each.topic, each.promotion_epoch)))

    def tails(self, mirror: MirrorName) -> tuple[TopicTails, ...]:
        """What is recorded of the divergent tails that promotions have left, by topic and promotion epoch."""
        found = self._all_of(TopicTails, mirror)
        return tuple(sorted(found, key=lambda each: (each.topic, each.promotion_epoch)))

    def findings_accepted(self, mirror: MirrorName) -> tuple[FindingsAccepted, ...]:
        """What somebody has accepted of the tails, by topic and promotion epoch."""
        found = self._all_of(FindingsAccepted, mirror)
        return tuple(sorted(found, key=lambda each: (each.topic, each.promotion_epoch)))

    def retention_held(self, mirror: MirrorName) -> dict[str, RetentionHeld]:
        """The topics of the old source whose records are kept for their tails."""
        return {each.topic: each for each in self._all_of(RetentionHeld, mirror)}

    def decision(self, mirror: MirrorName, plan: str) -> TailDecision | None:
        """The approved plan about divergent tails with this hash."""
        return self._of(mirror, self._found(TailDecision, f"decision/{mirror}/{plan}"))

    def decisions(self, mirror: MirrorName) -> tuple[TailDecision, ...]:
        """All approved plans about divergent tails that have been begun."""
        return tuple(self._all_of(TailDecision, mirror))

    def replays(self, mirror: MirrorName) -> tuple[ReplayProgress, ...]:
        """How far rescued records are replayed, by partition and promotion epoch."""
        found = self._all_of(ReplayProgress, mirror)
        return tuple(sorted(found, key=lambda each: (each.partition, each.promotion_epoch)))

    def promoted(self, mirror: MirrorName, topic: str) -> bool:
        """Whether a topic has left its mirror, so that it must not be copied to any more."""
        found = self.topic(mirror, topic)
        if found is None:
            return False
        return found.desired is DesiredState.REMOVED or self.promotions(mirror, topic) > found.promotion_epoch

    def observed(self, mirror: MirrorName, at: MirrorPartition) -> PartitionObserved | None:
        """The last report of a partition."""
        return self._of(mirror, self._found(PartitionObserved, f"partition/{mirror}/{at.topic}/{at.partition}"))

    def lost(self, mirror: MirrorName, at: MirrorPartition, topic_id: str = "") -> LostOffsets | None:
        """The records of a partition that its source deleted before they were copied.

        `topic_id`: of the mirror topic; what an earlier topic of that name lacks is left out. Empty: not known.
        """
        found = self._of(mirror, self._found(LostOffsets, f"lost/{mirror}/{at.topic}/{at.partition}"))
        earlier = found is not None and topic_id and found.topic_id and found.topic_id != topic_id
        return None if earlier else found

    def losses(self, mirror: MirrorName) -> tuple[LostOffsets, ...]:
        """What the source of a mirror deleted before it was copied."""
        return tuple(self._all_of(LostOffsets, mirror))

    def all_observed(self) -> tuple[PartitionObserved, ...]:
        return tuple(self._all_of(PartitionObserved, None))

    def source_ends(self, mirror: MirrorName) -> tuple[SourceEnds, ...]:
        """The source's ends as workers last recorded or confirmed them, in chunks."""
        return tuple(map(self._confirmed, self._all_of(SourceEnds, mirror)))

    def source_chunk(self, mirror: MirrorName, chunk: int) -> SourceEnds | None:
        """The source's ends in one state partition, as a worker last recorded or confirmed them."""
        found = self._of(mirror, self._found(SourceEnds, f"ends/{mirror}/{chunk}"))
        return None if found is None else self._confirmed(found)

    def _confirmed(self, ends: SourceEnds) -> SourceEnds:
        return ends.confirmed(self._found(EndsConfirmed, f"ends-confirmed/{ends.mirror}/{ends.chunk}"))

    def source_end(self, mirror: MirrorName, chunk: int, at: SourcePartition) -> SourceEnd | None:
        """The end of one source partition as a worker last recorded or confirmed it."""
        found = self.source_chunk(mirror, chunk)
        return next((found.current(end) for end in found.ends if end.partition == at), None) if found else None

    def progress(self, spec: MirrorSpec, chunk: int, at: MirrorPartition) -> StoredProgress:
        """How far a partition was copied, as workers have stored it: while it was copied, or when it FAILED."""
        found = (self.source_end(spec.mirror, chunk, spec.names.at_source(at)), self.observed(spec.mirror, at))
        known = [each for each in found if each is not None]
        records = [(each.record_until, each.record_epoch) for each in known]
        return StoredProgress(
            max((each.copied_until for each in known if each.copied_until is not None), default=None),
            max(((until, epoch) for until, epoch in records if until is not None and epoch is not None), default=None),
        )

    def markers_per_second(self, mirror: MirrorName) -> int:
        """Gap markers that this cluster has taken of the last reserve of the mirror; 0: not measured."""
        measured = [each for each in self._all_of(CopiedUpTo, mirror) if each.markers_per_second]
        return max(measured, key=lambda each: each.at).markers_per_second if measured else 0

    def last_copied_epoch(self, spec: MirrorSpec, at: MirrorPartition, end: int) -> tuple[int, bool]:
        """The source's leader epoch of what was copied last of a promoted partition, -1: unknown; and: certainly.

        `end`: in offsets of the source, up to where its records were copied. What workers have stored may be of an
        earlier record, unless that one ends there.
        """
        sealed, observed = self.copied_up_to(spec.mirror, at.topic), self.observed(spec.mirror, at)
        if sealed is not None and at.partition < len(sealed.epochs) and (epoch := sealed.epochs[at.partition]) >= 0:
            return epoch, True
        there = spec.names.at_source(at)
        seen = (each for chunk in self.source_ends(spec.mirror) for each in chunk.ends if each.partition == there)
        known = [each for each in (observed, *seen) if each is not None]
        records = [(each.record_until, each.record_epoch) for each in known]
        last = max(
            ((until, epoch) for until, epoch in records if until is not None and epoch is not None), default=None
        )
        if last is not None and last[0] >= end:
            return last[1], True
        return max(last[1] if last else -1, observed.last_mirrored_epoch if observed else -1), False

    # ── failovers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def source_fences(self, mirror: MirrorName) -> tuple[FencedTopic, ...]:
        """The source fences of a mirror, in force, pending or lifted, by topic."""
        found = self._of(mirror, self._found(Fences, f"fence/{mirror}"))
        return found.topics if found else ()

    def kept_fences(self, mirror: MirrorName) -> tuple[KeptFences, ...]:
        """The source fences of topics that reversals have left behind, by cluster id."""
        return tuple(sorted(self._all_of(KeptFences, mirror), key=lambda each: each.cluster_id))

    def failover(self, mirror: MirrorName, plan: str | None) -> FailoverRun | None:
        """The run of a plan."""
        return self._of(mirror, self._found(FailoverRun, f"failover/{mirror}/{plan}"))

    def failovers(self, mirror: MirrorName) -> tuple[FailoverRun, ...]:
        """All runs of a mirror, by key."""
        return tuple(sorted(self._all_of(FailoverRun, mirror), key=lambda each: each.key))

    def unfinished(self, mirror: MirrorName) -> FailoverRun | None:
        """The run that has neither ended nor been aborted."""
        return next((each for each in self.failovers(mirror) if each.status is RunStatus.RUNNING), None)

    def kept_plans(self, mirror: MirrorName) -> tuple[KeptPlan, ...]:
        """The plans that are stored for this mirror, expired ones too."""
        return tuple(self._all_of(KeptPlan, mirror))

    def lock(self, mirror: MirrorName) -> MirrorLock | None:
        return self._of(mirror, self._found(MirrorLock, f"lock/{mirror}"))

    def move(self, mirror: MirrorName) -> MirrorMove | None:
        """The forwarding record of a mirror that has another destination now, or is about to get one."""
        return self._of(mirror, self._found(MirrorMove, f"moved/{mirror}"))

    def moves(self) -> tuple[MirrorMove, ...]:
        """All forwarding records, by mirror."""
        return tuple(sorted(self._all_of(MirrorMove, None), key=lambda each: each.mirror))

    def moving(self, mirror: MirrorName) -> MirrorMove | None:
        """The unfinished reversal of a mirror, also one that is being withdrawn."""
        found = self.move(mirror)
        return found if found is not None and found.status in UNFINISHED else None

    def before_reversal(self, mirror: MirrorName) -> dict[str, TopicBefore]:
        """By name, the topics of an unfinished reversal as they were before it."""
        return {each.topic: each for each in self._all_of(TopicBefore, mirror)}

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, number: int) -> Claim | None:
        return self._found(Claim, f"claim/{number}")

    def workers(self) -> tuple[WorkerAlive, ...]:
        """All workers that have written a heartbeat, by name."""
        return tuple(sorted(self._every(WorkerAlive), key=lambda each: each.worker))

    # ── the other state topics ────────────────────────────────────────────────────────────────────────────────────

    def offset_runs(self, spec: MirrorSpec) -> tuple[OffsetRangeWritten, ...]:
        return tuple(each for each in self._every(OffsetRangeWritten) if is_of(each, spec))

    def offset_ranges(self, spec: MirrorSpec) -> tuple[OffsetRangesWritten, ...]:
        """What is published of the offset map of a mapped mirror, in pieces."""
        return tuple(each for each in self._every(OffsetRangesWritten) if is_of(each, spec))

    def offset_anchors(self, spec: MirrorSpec) -> tuple[OffsetAnchorsWritten, ...]:
        """What is left of old pieces of it."""
        return tuple(each for each in self._every(OffsetAnchorsWritten) if is_of(each, spec))

    def tombstones_missed(self, spec: MirrorSpec) -> dict[MirrorPartition, TombstonesMissed]:
        """The partitions in whose copy tombstones may be missing."""
        return {each.partition: each for each in self._every(TombstonesMissed) if is_of(each, spec)}

    def group_positions(self, spec: MirrorSpec) -> tuple[GroupPosition, ...]:
        return tuple(each for each in self._every(GroupPosition) if is_of(each, spec))

    def groups_followed(self, spec: MirrorSpec) -> GroupSyncStatus | None:
        found = self._found(GroupSyncStatus, f"groups/{spec.mirror}")
        return found if found is not None and is_of(found, spec) else None

    def groups_synced(self, mirror: MirrorName) -> GroupsSynced | None:
        return self._of(mirror, self._found(GroupsSynced, f"synced/{mirror}"))

    def has_been_left(self, mirror: MirrorName) -> bool:
        """Whether all topics of the mirror were failed over, or taken out: nothing follows its source any more."""
        return bool(self.removed(mirror)) and not self.mirrored(mirror)

    def duty_runs(self, mirror: MirrorName) -> tuple[DutyRun, ...]:
        """The last run of each periodic duty of the mirror that a worker has had."""
        return tuple(sorted(self._all_of(DutyRun, mirror), key=lambda each: each.duty))

    def acls_given(self, mirror: MirrorName) -> tuple[AclsGiven, ...]:
        """The ACLs that the mirror has created at its destination because they are at the source, by resource."""
        return tuple(self._all_of(AclsGiven, mirror))

    def acls_deleted(self, mirror: MirrorName) -> tuple[AclsDeleted, ...]:
        """All plans to delete ACLs that were carried out."""
        return tuple(self._all_of(AclsDeleted, mirror))

    def keys_of(self, mirror: MirrorName) -> tuple[str, ...]:
        """Every key of every mirror that has ever had this name."""
        return tuple(sorted(key for key in self._records if mirror_of(key) == mirror))

    def taken_along(self, mirror: MirrorName) -> tuple[MirrorRecord, ...]:
        """What a reversal takes to the mirror's new destination as it is."""
        kinds = (kind for kind in self._kinds() if issubclass(kind, MirrorRecord) and kind.policy.moves)
        return tuple(each for kind in kinds for each in self._all_of(kind, mirror))

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _found(self, kind: type[_R], key: str) -> _R | None:
        found = self._records.get(key)
        return found if isinstance(found, kind) else None

    def _every(self, kind: type[_R]) -> Iterator[_R]:
        return iter(cast("list[_R]", self._kinds().get(kind, ())))

    def _kinds(self) -> dict[type[StateRecord], list[StateRecord]]:
        """The records by kind, computed once: a view has thousands of records and is queried often."""
        if self._by_kind is None:
            found: dict[type[StateRecord], list[StateRecord]] = {}
            for each in self._records.values():
                found.setdefault(type(each), []).append(each)
            self._by_kind = found
        return self._by_kind

    def _all_of(self, kind: type[_M], mirror: MirrorName | None) -> Iterator[_M]:
        found = (each for each in self._every(kind) if mirror in {None, each.mirror})
        return (each for each in found if self._of(each.mirror, each) is not None)

    def _of(self, mirror: MirrorName, record: _M | None) -> _M | None:
        """`record`, unless it belongs to a deleted mirror of the same name."""
        spec = self.mirror(mirror)
        return record if record is None or spec is None or is_of(record, spec) else None


NOTHING_YET: Final = StateView()


def fold(view: Mapping[str, StateRecord], records: Iterable[StateRecord]) -> StateView:
    """The view after `records`."""
    latest = dict(view.items())
    for record in records:
        take(latest, record)
    return StateView(latest)
