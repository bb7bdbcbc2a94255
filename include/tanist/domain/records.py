"""What the state topics hold, and how a view is folded from them.

`__mirror_state` is the only database of the control plane. Credentials are never in it: a spec names a connection, and
the host resolves it. Readers ignore fields they do not know and records of a newer major version.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

from tanist.domain.fences import FencedTopic
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, ProducerId, SourceOffset, TopicPartition
from tanist.domain.states import MirrorState, Wish
from tanist.domain.write_rules import WriteRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STATE_TOPIC: Final = "__mirror_state"
OFFSETS_TOPIC: Final = "__mirror_offsets"
GROUPS_TOPIC: Final = "__mirror_groups"
SLICES: Final = 50
"""Partitions of the state topic, pinned when it is created (KIP-1279's mirror.topic.num.partitions)."""


class OffsetMode(StrEnum):
    IDENTICAL, MAPPED = "identical", "mapped"


class Engine(StrEnum):
    BATCHES, RECORDS = "batches", "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSpec:
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
    filler_id: ProducerId
    start_id: ProducerId
    created_at: EpochMs

    @property
    def key(self) -> str:
        return f"mirror/{self.mirror}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDesired:
    """What people want of one topic of a mirror."""

    mirror: MirrorName
    topic: str
    wish: Wish
    source_topic_id: str
    partitions: int
    offsets: OffsetMode = OffsetMode.IDENTICAL
    held_configs: tuple[tuple[str, str], ...] = ()
    """Topic configs (name, value) that the destination gets when it takes over; the mirror holds them off till then."""
    held_rules: tuple[WriteRule, ...] = ()
    """Who may write at the source, and may at the destination once it has taken over."""
    generation: int = 0
    """How many promotions had been counted when it was taken in; whoever sees more stays stopped."""
    changed_at: EpochMs

    @property
    def key(self) -> str:
        return f"topic/{self.mirror}/{self.topic}"

    def all_partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.topic, n) for n in range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Counts promotions of a topic. Whoever sees a higher one than its own stays stopped."""

    mirror: MirrorName
    topic: str
    count: int

    @property
    def key(self) -> str:
        return f"generation/{self.mirror}/{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObserved:
    """Written on transitions only, by the worker that holds `claim_epoch` of the partition's slice."""

    mirror: MirrorName
    partition: TopicPartition
    state: MirrorState
    row: int
    reason: str = ""
    error: str | None = None
    last_mirrored_epoch: int = -1
    claim_epoch: int = 0
    generation: int = 0
    """That of the wish that led here: a promotion that a worker has not read yet must not look like a new wish."""
    at: EpochMs

    @property
    def key(self) -> str:
        return f"partition/{self.mirror}/{self.partition.topic}/{self.partition.partition}"


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Last known ends of one source partition: the loss forecast once the source is dead.

    `rate`: offsets a second by which it grew of late, at the most; an older peak counts for less.
    """

    partition: TopicPartition
    high_watermark: SourceOffset
    last_stable: SourceOffset
    rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnds:
    mirror: MirrorName
    chunk: int
    ends: tuple[SourceEnd, ...]
    at: EpochMs

    @property
    def key(self) -> str:
        return f"ends/{self.mirror}/{self.chunk}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who coordinates a slice. `epoch` rises with every claim and is the fillers' producer epoch."""

    slice: int
    epoch: int
    worker: str

    @property
    def key(self) -> str:
        return f"claim/{self.slice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAlive:
    worker: str
    version: str
    host: str
    started_at: EpochMs
    at: EpochMs

    @property
    def key(self) -> str:
        return f"worker/{self.worker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRunWritten:
    """A run of the offset map, written ahead of its first record. Lives in `__mirror_offsets`, never overwritten."""

    mirror: MirrorName
    partition: TopicPartition
    source: SourceOffset
    destination: DestinationOffset
    why: str = ""

    @property
    def key(self) -> str:
        tp = self.partition
        return f"run/{self.mirror}/{tp.topic}/{tp.partition}/{self.source}/{self.destination}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fences:
    """Every topic of a mirror's source that a failover fenced, or owes a fence: written *before* anything is fenced."""

    mirror: MirrorName
    topics: tuple[FencedTopic, ...] = ()
    at: EpochMs

    @property
    def key(self) -> str:
        return f"fence/{self.mirror}"


class RunStatus(StrEnum):
    RUNNING, DONE, ABORTED = "RUNNING", "DONE", "ABORTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRun:
    """The run that holds a mirror: single flight, and what it has done that leaves no other trace.

    `shown` is the approved plan, word for word; `at` is the runner's heartbeat. While it is RUNNING nobody copies
    metadata of its topics. (The keys `run/...` belong to the runs of the offset map.)
    """

    mirror: MirrorName
    plan: str
    shown: str
    approval: str
    approver: str
    runner: str
    """Who is at work; empty: nobody, it was left after a step for the next one to take over."""
    status: RunStatus
    no_return: bool = False
    """Stored before the first barrier: from here on forward is the only way."""
    marks: tuple[str, ...] = ()
    reason: str = ""
    """Why it was aborted, or why the last one who was at work on it stopped."""
    started_at: EpochMs
    at: EpochMs

    @property
    def ways_on(self) -> str:
        """What a person can do about it while it is RUNNING."""
        return "run it to its end" if self.no_return else "run it to its end, or abort it"

    @property
    def key(self) -> str:
        return f"failover/{self.mirror}/{self.plan}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
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

    @property
    def key(self) -> str:
        return group_key(self.mirror, self.group, self.partition)


def group_key(mirror: MirrorName, group: str, at: TopicPartition) -> str:
    """Where a group's position is kept; names of groups may hold any character, also '/'."""
    return f"group/{mirror}/{quote(group, safe='')}/{at.topic}/{at.partition}"


class Following(StrEnum):
    TAILING, POLLING, TROUBLED = "tailing", "polling", "troubled"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsFollowed:
    """How the positions of a mirror's groups come to the destination, and until when all of them are there.

    `upto`: every commit before it has been written down (ms; 0: never yet). `reason` says why it is not TAILING.
    """

    mirror: MirrorName
    worker: str
    how: Following
    reason: str = ""
    groups: int = 0
    upto: EpochMs
    at: EpochMs

    @property
    def key(self) -> str:
        return f"groups/{self.mirror}"


@dataclass(frozen=True, slots=True)
class Tombstone:
    key: str


StateRecord: TypeAlias = (
    MirrorSpec
    | TopicDesired
    | Generation
    | PartitionObserved
    | SourceEnds
    | Claim
    | WorkerAlive
    | OffsetRunWritten
    | Fences
    | FailoverRun
    | GroupPosition
    | GroupsFollowed
    | Tombstone
)
StateView: TypeAlias = "Mapping[str, StateRecord]"
_TAKEN_IN: Final = 100
"""The row of the state machine that alone leads out of STOPPED."""
NOTHING_YET: Final[StateView] = MappingProxyType({})


def supersedes(record: StateRecord, held: StateRecord | None) -> bool:
    """Whether `record`, read after `held` on the same key, becomes the last word. A zombie's late write does not."""
    match record, held:
        case Claim(epoch=new), Claim(epoch=old):
            return new >= old
        case PartitionObserved(), PartitionObserved(state=MirrorState.STOPPED):
            # A worker that learns late that it was sealed does not undo the promotion; a newer wish does.
            return record.row == held.row or (record.row == _TAKEN_IN and record.generation >= held.generation)
        case PartitionObserved(claim_epoch=new), PartitionObserved(claim_epoch=old):
            return new >= old
        case GroupPosition(order=new), GroupPosition(order=old) if new >= 0:
            return new >= old
        case _:
            return True


def fold(view: StateView, records: Iterable[StateRecord]) -> StateView:
    """The view after `records`: the last word on a key wins, and a tombstone takes it away."""
    latest = dict(view)
    for record in records:
        if isinstance(record, Tombstone):
            latest.pop(record.key, None)
        elif supersedes(record, latest.get(record.key)):
            latest[record.key] = record
    return MappingProxyType(latest)


def specs(view: StateView) -> tuple[MirrorSpec, ...]:
    """All mirrors of a view, by name."""
    return tuple(sorted((r for r in view.values() if isinstance(r, MirrorSpec)), key=lambda r: r.mirror))


def topics(view: StateView, mirror: MirrorName | None = None) -> tuple[TopicDesired, ...]:
    """The topics of `mirror` (of all mirrors if None), by key."""
    found = (r for r in view.values() if isinstance(r, TopicDesired) and mirror in {None, r.mirror})
    return tuple(sorted(found, key=lambda r: r.key))


def generation(view: StateView, mirror: MirrorName, topic: str) -> int:
    """How many promotions of a topic have been counted."""
    found = view.get(f"generation/{mirror}/{topic}")
    return found.count if isinstance(found, Generation) else 0


def promoted(view: StateView, mirror: MirrorName, topic: str) -> bool:
    """Whether a topic has left its mirror: nobody may copy into it any more."""
    found = view.get(f"topic/{mirror}/{topic}")
    if not isinstance(found, TopicDesired):
        return False
    return found.wish is Wish.REMOVED or generation(view, mirror, topic) > found.generation


def fenced(view: StateView, mirror: MirrorName) -> tuple[FencedTopic, ...]:
    """The fences of a mirror's source, standing, owed or lifted, by topic."""
    found = view.get(f"fence/{mirror}")
    return found.topics if isinstance(found, Fences) else ()


def fences_with(view: StateView, mirror: MirrorName, topics: Iterable[FencedTopic], at: EpochMs) -> Fences | None:
    """The mirror's fences with `topics` in place of what was known of them; None: that changes nothing."""
    held = {each.topic: each for each in fenced(view, mirror)}
    merged = held | {each.topic: each for each in topics}
    if merged == held:
        return None
    return Fences(mirror=mirror, topics=tuple(merged[name] for name in sorted(merged)), at=at)


def failovers(view: StateView, mirror: MirrorName) -> tuple[FailoverRun, ...]:
    """All runs of a mirror, by key."""
    found = (r for r in view.values() if isinstance(r, FailoverRun) and r.mirror == mirror)
    return tuple(sorted(found, key=lambda r: r.key))


def observed(view: StateView, mirror: MirrorName, partition: TopicPartition) -> PartitionObserved | None:
    """What was last reported of a partition."""
    found = view.get(f"partition/{mirror}/{partition.topic}/{partition.partition}")
    return found if isinstance(found, PartitionObserved) else None
