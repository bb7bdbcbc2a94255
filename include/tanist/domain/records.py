"""What the state topics hold, and how a view is folded from them.

`__mirror_state` is the only database of the control plane. Credentials are never in it: a spec names a connection, and
the host resolves it. Readers ignore fields they do not know and records of a newer major version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import AclEntry
from tanist.domain.fences import FencedTopic
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, ProducerId, SourceOffset, TopicPartition
from tanist.domain.recovery import ProducerIds
from tanist.domain.state_record import MirrorRecord, Placement, StateRecord, stored
from tanist.domain.states import DesiredState, MirrorState
from tanist.domain.stored_names import stored_under

if TYPE_CHECKING:
    from collections.abc import Iterable

STATE_TOPIC: Final = "__mirror_state"
OFFSETS_TOPIC: Final = "__mirror_offsets"
GROUPS_TOPIC: Final = "__mirror_groups"
STATE_PARTITIONS: Final = 50
"""Partitions of the state topic, pinned when it is created (KIP-1279's mirror.topic.num.partitions)."""


class OffsetMode(StrEnum):
    IDENTICAL, MAPPED = "identical", "mapped"


class Engine(StrEnum):
    BATCHES, RECORDS = "batches", "records"


@stored("mirror", "mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSpec(StateRecord):
    """One mirror. Cluster ids and producer ids are pinned at creation and never change."""

    mirror: MirrorName
    source: str
    destination: str
    source_cluster_id: str
    destination_cluster_id: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    offsets: OffsetMode = OffsetMode.IDENTICAL
    engine: Engine = Engine.BATCHES
    replication_factor: int | None = None
    max_start_fill: int = 100_000_000
    """Offsets that may be filled to bring a log to the source's log start; about 1.4 bytes each."""
    data_id: ProducerId
    marker_id: ProducerId = field(metadata=stored_under("filler_id"))
    start_id: ProducerId
    created_at: EpochMs
    mirror_id: str = ""
    """Made at creation: the name can be used again, this cannot."""

    @property
    def id(self) -> str:
        """What tells this mirror from an earlier one of its name; specs without an id use their data producer id."""
        return self.mirror_id or f"producer-{self.data_id}"

    @property
    def producer_ids(self) -> ProducerIds:
        """Everything that its engine writes with: a promotion fences all of it, dead or alive."""
        return ProducerIds(self.data_id, self.marker_id, self.start_id)


@stored("topic", "mirror", "topic")
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDesired(MirrorRecord):
    """What people want of one topic of a mirror."""

    mirror: MirrorName
    topic: str
    desired: DesiredState = field(metadata=stored_under("wish"))
    source_topic_id: str
    partitions: int
    offsets: OffsetMode = OffsetMode.IDENTICAL
    deferred_configs: tuple[tuple[str, str], ...] = field(default=(), metadata=stored_under("held_configs"))
    """Topic configs (name, value) that the destination gets when it takes over; the mirror holds them off till then."""
    deferred_acls: tuple[AclEntry, ...] = field(default=(), metadata=stored_under("held_rules"))
    """Who may write at the source, and may at the destination once it has taken over."""
    promotion_epoch: int = field(default=0, metadata=stored_under("generation"))
    """How many promotions had been counted when it was taken in; whoever sees more stays stopped."""
    changed_at: EpochMs
    mirror_id: str = ""

    def all_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.topic, n) for n in range(self.partitions))


@stored("generation", "mirror", "topic")
@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionEpoch(MirrorRecord):
    """Counts promotions of a topic. Whoever sees a higher one than its own stays stopped."""

    mirror: MirrorName
    topic: str
    count: int
    topic_id: str = ""
    """The topic of the destination that took over; empty: not known, or written by a version that did not say."""
    mirror_id: str = ""


@stored("copied", "mirror", "topic")
@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedUpTo(MirrorRecord):
    """Up to where each partition of the source had been copied when its topic took over.

    Written before the first barrier: what the source has behind it, the new primary lacks. `copied`: source offsets by
    partition, -1 where it was not known.
    """

    mirror: MirrorName
    topic: str
    copied: tuple[int, ...]
    at: EpochMs
    mirror_id: str = ""


@stored("partition", "mirror", "partition", placement=Placement.HASHED)
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObserved(MirrorRecord):
    """Written on transitions only, by the worker that holds `claim_epoch` of the partition's slice."""

    mirror: MirrorName
    partition: TopicPartition
    state: MirrorState
    row: int
    reason: str = ""
    error: str | None = None
    last_mirrored_epoch: int = -1
    claim_epoch: int = 0
    promotion_epoch: int = field(default=0, metadata=stored_under("generation"))
    """That of the wish that led here: a promotion that a worker has not read yet must not look like a new wish."""
    topic_id: str = ""
    """The topic of the destination that was copied to; empty: not known yet, or the worker did not say."""
    at: EpochMs
    mirror_id: str = ""


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Last known ends of one source partition: the loss forecast once the source is dead.

    `rate`: offsets a second by which it grew of late, at the most; an older peak counts for less. `log_start`: where
    its log began; None: written by a worker that did not say.
    """

    partition: TopicPartition
    high_watermark: SourceOffset
    last_stable: SourceOffset
    rate: float = 0.0
    log_start: SourceOffset | None = None


@stored("ends", "mirror", "chunk")
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnds(MirrorRecord):
    mirror: MirrorName
    chunk: int
    ends: tuple[SourceEnd, ...]
    at: EpochMs
    mirror_id: str = ""


@stored("claim", "slice", placement=Placement.NUMBERED)
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(StateRecord):
    """Who coordinates a slice. `epoch` rises with every claim and is the fillers' producer epoch."""

    state_partition: int = field(metadata=stored_under("slice"))
    epoch: int
    worker: str


@stored("worker", "worker")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAlive(StateRecord):
    """`principal` and `unbound`: how it logs in at the destination, see `LoginSeen`; None: not told, or not known."""

    worker: str
    version: str
    host: str
    started_at: EpochMs
    at: EpochMs
    principal: str | None = None
    unbound: str = ""


@stored("run", "mirror", "partition", "source", "destination")
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRangeWritten(MirrorRecord):
    """A run of the offset map, written ahead of its first record. Lives in `__mirror_offsets`, never overwritten."""

    mirror: MirrorName
    partition: TopicPartition
    source: SourceOffset
    destination: DestinationOffset
    why: str = ""
    mirror_id: str = ""


@stored("fence", "mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class Fences(MirrorRecord):
    """Every topic of a mirror's source that a failover fenced, or owes a fence: written *before* anything is fenced."""

    mirror: MirrorName
    topics: tuple[FencedTopic, ...] = ()
    at: EpochMs
    mirror_id: str = ""


class RunStatus(StrEnum):
    RUNNING, DONE, ABORTED = "RUNNING", "DONE", "ABORTED"


@stored("failover", "mirror", "plan")
@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRun(MirrorRecord):
    """The run that holds a mirror: single flight, and what it has done that leaves no other trace.

    `plan_json` is the approved plan, word for word; `at` is the runner's heartbeat. While it is RUNNING nobody copies
    metadata of its topics. (The keys `run/...` belong to the runs of the offset map.)
    """

    mirror: MirrorName
    plan: str
    plan_json: str = field(metadata=stored_under("shown"))
    approval: str
    approver: str
    runner: str = field(metadata=stored_under("runner"))
    """Who is at work; empty: nobody, it was left after a step for the next one to take over."""
    status: RunStatus
    no_return: bool = False
    """Stored before the first barrier: from here on forward is the only way."""
    marks: tuple[str, ...] = field(default=(), metadata=stored_under("marks"))
    reason: str = ""
    """Why it was aborted, or why the last one who was at work on it stopped."""
    started_at: EpochMs
    at: EpochMs
    mirror_id: str = ""

    @property
    def next_actions(self) -> str:
        """What a person can do about it while it is RUNNING."""
        return (
            "complete it with `tanist failover run`"
            if self.no_return
            else ("complete it with `tanist failover run`, or undo it with `tanist failover abort`")
        )


@stored("group", "mirror", "group", "partition")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition(MirrorRecord):
    """The freshest position of a group at the source. Lives in `__mirror_groups`, written when it has changed.

    `order`: where the commit lies in the source's `__consumer_offsets`, -1 where it was asked for. Leader epochs are
    not kept: a foreign one stops Java consumers for good.
    """

    mirror: MirrorName
    group: str
    partition: TopicPartition
    offset: SourceOffset
    at: EpochMs
    """When it was committed, by the source's clock; when it was seen where it was asked for."""
    kind: str = "classic"
    order: int = -1
    mirror_id: str = ""


class OffsetTailMode(StrEnum):
    TAILING, POLLING, DEGRADED = "tailing", "polling", "troubled"


@stored("groups", "mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncStatus(MirrorRecord):
    """How the positions of a mirror's groups come to the destination, and until when all of them are there.

    `complete_until_ms`: every commit before it has been written down (0: never yet). `reason` says why it is not
    TAILING.
    """

    mirror: MirrorName
    worker: str
    mode: OffsetTailMode = field(metadata=stored_under("how"))
    reason: str = ""
    groups: int = 0
    complete_until_ms: EpochMs = field(metadata=stored_under("upto"))
    at: EpochMs
    mirror_id: str = ""


@stored("lock", "mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLock(MirrorRecord):
    """Who may change a mirror now. It rests on the mirror's transactional id; this record names the holder.

    `epoch` rises with every claim of the lock. `holder` empty: released. `plan`: the failover that holds the lock, also
    between its steps; empty: another operation. `preemptible`: a failover need not wait for it. `at`: heartbeat.
    """

    mirror: MirrorName
    epoch: int
    holder: str
    operation: str
    plan: str = ""
    preemptible: bool = False
    at: EpochMs
    mirror_id: str = ""


def fences_with(
    held: Iterable[FencedTopic], topics: Iterable[FencedTopic], spec: MirrorSpec, at: EpochMs
) -> Fences | None:
    """The mirror's fences with `topics` in place of what was known of them (`held`); None: that changes nothing."""
    before = {each.topic: each for each in held}
    merged = before | {each.topic: each for each in topics}
    if merged == before:
        return None
    return Fences(
        mirror=spec.mirror, mirror_id=spec.mirror_id, topics=tuple(merged[name] for name in sorted(merged)), at=at
    )
