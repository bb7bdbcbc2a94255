"""The records of the state topics.

`__mirror_state` is the only database of the control plane. It never contains credentials: a spec names a connection,
and the host resolves it. Readers ignore fields they do not know and records of a newer major version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tanist.domain.acl_entries import AclEntry
from tanist.domain.compaction import Holes
from tanist.domain.copier import Copier
from tanist.domain.delivery import Delivery
from tanist.domain.fences import FencedTopic
from tanist.domain.losses import OnLoss
from tanist.domain.names import (
    DestinationOffset,
    EpochMs,
    MirrorName,
    MirrorPartition,
    ProducerId,
    SourceOffset,
    SourcePartition,
    TopicNames,
)
from tanist.domain.renaming import topic_names
from tanist.domain.rewinds import OnRewind
from tanist.domain.state_record import (
    MirrorRecord,
    Placement,
    RecordPolicy,
    StateRecord,
    stored,
    stored_since,
    stored_under,
)
from tanist.domain.states import RESUMED_ROW, DesiredState, MirrorState
from tanist.domain.writer_identity import ProducerIds

STATE_TOPIC: Final = "__mirror_state"
OFFSETS_TOPIC: Final = "__mirror_offsets"
GROUPS_TOPIC: Final = "__mirror_groups"
STATE_PARTITIONS: Final = 50
"""Partitions of the state topic, pinned when it is created (KIP-1279's mirror.topic.num.partitions)."""


class OffsetMode(StrEnum):
    IDENTICAL, MAPPED = "identical", "mapped"


class Engine(StrEnum):
    BATCHES, RECORDS = "batches", "records"


class SmallBatches(StrEnum):
    """Whether runs of small batches are merged: where that is cheaper and all workers can read it, or never."""

    AUTO, OFF = "auto", "off"


@stored("mirror", "mirror", policy=RecordPolicy(compared=True))
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
    max_start_fill: int = 100_000_000  # offsets that may be filled to bring a log to its start; about 1.4 bytes each
    data_id: ProducerId
    marker_id: ProducerId = field(metadata=stored_under("filler_id"))
    start_id: ProducerId
    created_at: EpochMs
    mirror_id: str = ""  # generated at creation and never used again, unlike the name
    merge_small_batches: SmallBatches = SmallBatches.OFF  # earlier: their workers cannot recover on merged ones
    holes: Holes = Holes.REFUSE  # what offsets hold whose records the source has compacted away; earlier: refused
    on_loss: OnLoss = OnLoss.CONTINUE  # what is done about records deleted before they were copied; earlier: continued
    deny_writers: bool = False  # whether other writers of a mirror topic are denied WRITE by name
    copied_by: Copier = field(default=Copier.TANIST, metadata=stored_since(2))  # earlier versions would copy
    rename: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # rules, see `domain.renaming`
    strategies: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # STRATEGY or STRATEGY=REGEX of topics
    group_include: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # empty: all groups
    group_exclude: tuple[str, ...] = field(default=(), metadata=stored_since(1))
    sync_groups_seconds: int = field(default=0, metadata=stored_since(1))  # 0: in every run of the schedule
    mm2_aliases: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # of source and destination; or none
    poll_timeout_ms: int = field(default=0, metadata=stored_since(1))  # of a request by timestamps; 0: the default
    transactional_id: str = field(default="", metadata=stored_since(3))  # of mapped offsets: what its ids begin with
    transaction_ms: int = field(default=0, metadata=stored_since(1))  # after this a transaction ends; 0: the default
    delivery: Delivery = field(default=Delivery.EXACTLY_ONCE, metadata=stored_since(4))
    start: str = field(default="", metadata=stored_since(1))  # of topics when they are added, see `domain.starting`
    fence_source: bool = field(default=True, metadata=stored_since(1))  # whether failovers block producers there
    grant_writers: bool = field(default=True, metadata=stored_since(1))  # whether failovers change ACLs of copies
    sync_metadata_seconds: int = field(default=0, metadata=stored_since(1))  # workers do, so often; 0: they do not
    workers_sync_groups: bool = field(default=False, metadata=stored_since(1))  # every `sync_groups_seconds`
    config_exclude: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # empty: those of KIP-1279
    on_rewind: OnRewind = field(default=OnRewind.HOLD, metadata=stored_since(1))
    acl_rules: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # ACLs that follow, see `domain.acl_rules`
    acl_principals: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # SOURCE=DESTINATION
    limit: int = field(default=0, metadata=stored_since(1))  # bytes per second of the mirror; 0: none
    topic_limits: tuple[str, ...] = field(default=(), metadata=stored_since(1))  # REGEX=RATE, see `domain.limits`
    threads: int = field(default=1, metadata=stored_since(1))  # of a worker, for each broker of the source

    @property
    def is_mapped(self) -> bool:
        """Whether Tanist copies it in transactions, at offsets of the copy's own."""
        return self.offsets is OffsetMode.MAPPED and self.copied_by is Copier.TANIST

    @property
    def id(self) -> str:
        """Distinguishes mirrors of the same name; old specs without an id use their data producer id."""
        return self.mirror_id or f"producer-{self.data_id}"

    @property
    def names(self) -> TopicNames:
        """How its topics are named on the other side."""
        return topic_names(self.rename, self.source, self.destination)

    @property
    def writer(self) -> ProducerIds:
        """Who writes its copies; a promotion fences that writer."""
        return ProducerIds(self.data_id, self.marker_id, self.start_id)


@stored("topic", "mirror", "topic", policy=RecordPolicy(compared=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDesired(MirrorRecord):
    """The desired state of one topic of a mirror."""

    mirror: MirrorName
    topic: str
    desired: DesiredState = field(metadata=stored_under("wish"))
    source_topic_id: str
    partitions: int
    offsets: OffsetMode = OffsetMode.IDENTICAL
    deferred_configs: tuple[tuple[str, str], ...] = field(default=(), metadata=stored_under("held_configs"))
    """Topic configs (name, value) that are set at the destination only by a failover."""
    synced_configs: tuple[str, ...] | None = field(default=None, metadata=stored_since(1))
    """Names of the configs that the mirror topic has from the source; None: not known, or an earlier version's."""
    drifted_configs: tuple[str, ...] = field(default=(), metadata=stored_since(1))
    """Names of those that somebody has set on the mirror topic alone, as the last sync has seen them."""
    deferred_acls: tuple[AclEntry, ...] = field(default=(), metadata=stored_under("held_rules"))
    """The ACLs for writing at the source, which a failover creates at the destination."""
    promotion_epoch: int = field(default=0, metadata=stored_under("generation"))
    """The promotion epoch when the topic was added; a worker that sees a higher one does not copy."""
    changed_at: EpochMs
    mirror_id: str = ""
    copy_starts: tuple[int, ...] = ()
    """The offset from which each partition is copied, the same on both clusters, if the mirror topic had records when
    it was added; empty: it had none. What lies below is history: it is neither compared nor a foreign write."""
    source_starts: tuple[int, ...] = field(default=(), metadata=stored_since(1))
    """Of mapped offsets: where the copy of each partition begins at the source, by number; no entry: at its start."""
    denied: tuple[str, ...] = ()  # principals that are denied WRITE at the destination by name, until a failover
    given: tuple[AclEntry, ...] | None = None  # created by the step `open`; None: not yet, or by an earlier version
    given_at_source: tuple[AclEntry, ...] = ()  # created there when it took over; a reversal to it takes them back
    restored: bool = False  # by `tanist state`, and nobody has resumed it since: workers do nothing with it
    resumes: int = 0  # counts requests to resume FAILED partitions; one with another count has not followed it yet

    def all_partitions(self) -> tuple[MirrorPartition, ...]:
        return tuple(MirrorPartition(self.topic, n) for n in range(self.partitions))

    def copy_start(self, partition: int) -> DestinationOffset:
        return DestinationOffset(self.copy_starts[partition] if partition < len(self.copy_starts) else 0)

    def source_start(self, partition: int) -> SourceOffset:
        return SourceOffset(self.source_starts[partition] if partition < len(self.source_starts) else 0)


@stored("generation", "mirror", "topic", policy=RecordPolicy(compared=True, stays=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionEpoch(MirrorRecord):
    """Counts promotions of a topic. A worker that sees a higher count than the topic's own does not copy."""

    mirror: MirrorName
    topic: str
    count: int
    topic_id: str = ""  # of the failed-over topic at the destination; empty: unknown, or an earlier version's
    mirror_id: str = ""


@stored("copied", "mirror", "topic", policy=RecordPolicy(compared=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedUpTo(MirrorRecord):
    """Up to which source offset each partition had been copied when its topic was failed over.

    Written before the first producer fence. `topic_id`: of the approved mirror topic. By partition: `copied` (-1 if
    unknown); `reserve_to`: where the reserve ends; `unreserved_to`: where it should end by the estimate (0: there, -1:
    unknown); `covers_ms`: as `PartitionReserve.covers_ms`; `epochs`: the source's leader epoch of the last copied
    batch, read from the source itself (-1: not read). `markers_per_second`: which all leaders together took for the
    reserves of the run; 0: not measured. Earlier versions do not store the last three.
    """

    mirror: MirrorName
    topic: str
    copied: tuple[int, ...]
    topic_id: str = ""
    at: EpochMs
    mirror_id: str = ""
    reserve_to: tuple[int, ...] = ()
    unreserved_to: tuple[int, ...] = ()
    covers_ms: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    markers_per_second: int = 0


@stored("partition", "mirror", "partition", policy=RecordPolicy(compared=True), placement=Placement.HASHED)
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObserved(MirrorRecord):
    """Written on transitions only, by the worker that holds `claim_epoch` of its state partition."""

    mirror: MirrorName
    partition: MirrorPartition
    state: MirrorState
    row: int
    reason: str = ""
    error: str | None = None
    last_mirrored_epoch: int = -1
    claim_epoch: int = 0
    promotion_epoch: int = field(default=0, metadata=stored_under("generation"))
    """That of the desired state that led here: a promotion that was not read yet must not look like a new request."""
    topic_id: str = ""  # of the destination topic that was copied to; empty: unknown or not reported
    at: EpochMs
    mirror_id: str = ""
    resumes: int = 0  # `TopicDesired.resumes` when this was written
    copied_until: SourceOffset | None = None  # how far it was copied when it FAILED, as in `SourceEnd`, as the next two
    record_until: SourceOffset | None = None
    record_epoch: int | None = None

    @property
    def state_of_copy(self) -> MirrorState:
        """As `state`; FAILED also until it is known that a partition that was resumed is a copy again."""
        return MirrorState.FAILED if self.row == RESUMED_ROW else self.state


@stored("claim", "slice", policy=RecordPolicy(), placement=Placement.NUMBERED)
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(StateRecord):
    """The owner of a state partition. `epoch` increases with every claim; it is the producer epoch of gap markers."""

    state_partition: int = field(metadata=stored_under("slice"))
    epoch: int
    worker: str


@stored("worker", "worker", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAlive(StateRecord):
    """`principal` and `unbound`: its login at the destination, see `LoginSeen`; None: not reported, or unknown.

    `reads_merged`: it can recover on merged small batches; earlier versions do not say so, and cannot.
    """

    worker: str
    version: str
    host: str
    started_at: EpochMs
    at: EpochMs
    principal: str | None = None
    unbound: str = ""
    reads_merged: bool = False


@stored("run", "mirror", "partition", "source", "destination", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRangeWritten(MirrorRecord):
    """A range of the offset map, written before its first record is sent. In `__mirror_offsets`, never overwritten."""

    mirror: MirrorName
    partition: MirrorPartition
    source: SourceOffset
    destination: DestinationOffset
    why: str = ""
    mirror_id: str = ""


@stored("fence", "mirror", policy=RecordPolicy(compared=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class Fences(MirrorRecord):
    """All source fences of a mirror, in force or pending; written *before* anything is fenced."""

    mirror: MirrorName
    topics: tuple[FencedTopic, ...] = ()
    at: EpochMs
    mirror_id: str = ""


class RunStatus(StrEnum):
    RUNNING, DONE, ABORTED = "RUNNING", "DONE", "ABORTED"


@stored("failover", "mirror", "plan", policy=RecordPolicy(compared=True, moves=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRun(MirrorRecord):
    """A failover run. It holds the mirror's lock, and records actions that leave no other trace.

    `plan_json` is the approved plan, word for word; `at` is the runner's heartbeat. While it is RUNNING no
    metadata of its topics is copied. (The keys `run/...` belong to ranges of the offset map.)
    """

    mirror: MirrorName
    plan: str
    plan_json: str = field(metadata=stored_under("shown"))
    approval: str
    approver: str
    runner: str = field(metadata=stored_under("runner"))
    """The process that runs it; empty: none, the next call takes it over."""
    status: RunStatus
    no_return: bool = False
    """Stored before the first producer fence: from here on the run can only be completed."""
    marks: tuple[str, ...] = field(default=(), metadata=stored_under("marks"))
    reason: str = ""
    """Why it was aborted, or why the last process that ran it stopped."""
    started_at: EpochMs
    at: EpochMs
    mirror_id: str = ""

    @property
    def next_actions(self) -> str:
        """What an operator can do while it is RUNNING."""
        undo = "" if self.no_return else ", or undo it with `tanist failover abort`"
        return f"complete it with `tanist failover run --plan {self.plan}`{undo}"


@stored("group", "mirror", "group", "partition", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition(MirrorRecord):
    """The latest committed offset of a group at the source. In `__mirror_groups`, written when it changes.

    `order`: where the commit lies in the source's `__consumer_offsets`, -1 if it was polled. Leader epochs are not
    kept: an epoch of another cluster stops Java consumers for good.
    """

    mirror: MirrorName
    group: str
    partition: SourcePartition
    offset: SourceOffset
    at: EpochMs
    """When it was committed, by the source's clock; when it was observed, if it was polled."""
    kind: str = "classic"
    order: int = -1
    mirror_id: str = ""


class OffsetTailMode(StrEnum):
    TAILING, POLLING, DEGRADED = "tailing", "polling", "troubled"


@stored("groups", "mirror", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncStatus(MirrorRecord):
    """How committed offsets of a mirror's groups reach the destination, and up to when they are complete.

    `complete_until_ms`: when the source was last asked for all of them and has answered; every commit before it is
    stored, and it never goes back (0: never yet). `at`: heartbeat of the worker, which says nothing about the source.
    `reason`: why the mode is not TAILING.
    """

    mirror: MirrorName
    worker: str
    mode: OffsetTailMode = field(metadata=stored_under("how"))
    reason: str = ""
    groups: int = 0
    complete_until_ms: EpochMs = field(metadata=stored_under("upto"))
    at: EpochMs
    mirror_id: str = ""


@stored("lock", "mirror", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLock(MirrorRecord):
    """The holder of a mirror's lock. The lock itself is the mirror's transactional id.

    `epoch` rises with every claim of the lock. `holder` empty: released. `plan`: the failover that holds the lock, also
    between its steps; empty: another operation. `preemptible`: a failover may take it over. `at`: heartbeat.
    """

    mirror: MirrorName
    epoch: int
    holder: str
    operation: str
    plan: str = ""
    preemptible: bool = False
    at: EpochMs
    mirror_id: str = ""
