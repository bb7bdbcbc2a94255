"""One look at both clusters. None anywhere means that it could not be told, which is never good news."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.deletion import SourceTopicDeleted
from tanist.domain.errors import SourceTruncated
from tanist.domain.fences import FenceStatus
from tanist.domain.names import EpochMs, TopicPartition
from tanist.domain.records import RunStatus
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.fences import FencedTopic
    from tanist.domain.lag import KnownEnd
    from tanist.domain.logins import MirrorLogin
    from tanist.domain.names import (
        BrokerId,
        DestinationOffset,
        MirrorPartition,
        SourceOffset,
        SourcePartition,
    )
    from tanist.domain.records import FailoverRun, GroupSyncStatus
    from tanist.domain.tails import TailFinding


LONGEST_TAIL: Final = 10_000
"""Offsets at the end of a log that are read to see whether they are markers only."""


class SourceState(StrEnum):
    """Seen from here: clients may still reach a source that is SILENT."""

    ALIVE, PARTLY, SILENT = "alive", "partly", "silent"


@dataclass(frozen=True, slots=True)
class LiveEnd:
    """The source's own answer. `last_stable` below `high_watermark`: open transactions hold it.

    `log_end`: the leader's true end. While a follower stalls the high watermark stands still below it, and a producer
    with acks=1 has been acknowledged up to there. `data_end`: where it is below `log_end`, only control batches follow.
    """

    high_watermark: SourceOffset
    last_stable: SourceOffset
    log_end: SourceOffset | None = None
    data_end: SourceOffset | None = None

    @property
    def settled(self) -> bool:
        """Everything in the log is committed, and no transaction holds records back."""
        return self.high_watermark == self.last_stable == self.log_end

    @property
    def end(self) -> SourceOffset:
        """Where the log ends at least."""
        return max(self.high_watermark, self.log_end or self.high_watermark)


class TransactionalProducers(StrEnum):
    """Who may go on spending offsets of a source partition, on the markers of transactions that its fence refuses."""

    NONE = "none"
    """No coordinator of the source knows a transactional id, besides those of mirrors."""
    ELSEWHERE = "elsewhere"
    """There are some, and the leader remembers none of their producers."""
    HERE = "here"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """`end` is the committed end of the copy, `copied` the position in the source that it stands for.

    `start` is the log start offset of the copy; `first` is where, in the copy, the oldest record lies that the source
    has, or had when it was last seen. `error`: why the partition FAILED, by its name. `known`: the source's last answer
    that is on record. `fenced_since`: since when a proved source fence has ended the source's log; None: none does.
    `named`: a transaction at the source's coordinators names it, though it may have written nothing there yet; False,
    too, where that can never be told (`SourceFacts.transactions_told`). `foreign`: somebody else than the mirror wrote
    the end of the copy, so no number tells how much of the source is in it. `tombstones_missed`: the copy may hold
    keys that were deleted at the source (`TombstonesMissed`). `longer`: the copy holds records from behind the end
    of a source that answers, which has therefore lost them. `leader`: of the copy. `transactional`: asked only
    where the source fence is a near one.
    """

    partition: MirrorPartition
    state: MirrorState = MirrorState.UNKNOWN
    error: str | None = None
    live: LiveEnd | None = None
    known: KnownEnd | None = None
    fenced_since: EpochMs | None = None
    start: DestinationOffset | None = None
    first: DestinationOffset | None = None
    end: DestinationOffset | None = None
    copied: SourceOffset | None = None
    foreign: bool | None = None
    longer: bool | None = False
    named: bool | None = None
    in_sync: int | None = None
    min_in_sync: int | None = None
    producer_fenced: bool | None = None
    last_mirrored_epoch: int = -1
    leader: BrokerId | None = None
    tombstones_missed: bool = False
    transactional: TransactionalProducers = TransactionalProducers.UNKNOWN

    @property
    def drained(self) -> bool:
        """Every record of the source, to its leader's true end, is in the copy, and no transaction is open there."""
        live = self.live
        if self.foreign is not False:
            return False
        if live is None or live.log_end is None or self.copied is None or self.named is not False:
            return False
        reached = live.log_end if live.data_end is None else live.data_end
        return live.settled and reached <= self.copied <= live.log_end

    @property
    def tail(self) -> tuple[int, int] | None:
        """The end of a log at rest that is not in the copy: where it is short it may be markers only."""
        live = self.live
        if live is None or live.log_end is None or self.copied is None or not live.settled:
            return None
        return (self.copied, live.log_end) if 0 < live.log_end - self.copied <= LONGEST_TAIL else None

    @property
    def source_truncated(self) -> bool:
        """The source has lost records that were copied: that is seen, or a worker has FAILED the partition for it."""
        return self.longer is True or (self.state is MirrorState.FAILED and self.error == SourceTruncated.name)

    @property
    def source_deleted(self) -> bool:
        """The partition is STOPPED because its source topic was deleted."""
        return self.state is MirrorState.STOPPED and self.error == SourceTopicDeleted.name

    @property
    def at_risk(self) -> int | None:
        """Offsets that the source is known to have, or to have had, and the copy has not.

        None, too, where the source was truncated: what it took since has offsets that the copy has already.
        """
        if self.foreign is not False or self.longer is not False or self.source_truncated:
            return None
        if self.drained:
            return 0
        end = self.live.end if self.live else self.known.high_watermark if self.known else None
        return None if end is None or self.copied is None else max(0, end - self.copied)

    @property
    def missing_at_start(self) -> int | None:
        """Offsets that the source has, or had when it was last seen, and that are gone from the start of the copy.

        None: not told where the copy begins, or where the source did; nothing is gone from a copy that begins at 0.
        """
        if self.start is None or (self.start > 0 and self.first is None):
            return None
        return max(0, self.start - (self.first or 0))


@dataclass(frozen=True, slots=True)
class Uncopied:
    """A partition of the source that the mirror does not know of yet. `offsets`: what it holds; None: not told."""

    partition: SourcePartition
    offsets: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """`writable`: nothing of ours keeps producers off the copy, and who could write at the source can here.

    `shut_out`: the mirror itself may not write any more, by its brokers' own word; None: it is mirrored still, or
    that is not known. Of the copy: `mirrored` partitions are on record and `partitions` are there; `altered` are
    the configs (`name=value`) that a mirror topic must not have; `others` may write to it besides the mirror (None:
    not told). `recreated`: which topic was deleted and created again since it was mirrored, in words; empty: none.
    `source_id`: the topic id at the source when it was added; `copy_id`: at the destination, now; `sealed_id`: the
    one on record at the latest point of no return; each is empty where it is unknown. `locked_out`: who may write
    at the source, as stored, and could not at the destination; `acls_changed`: what differs at the source from what
    is stored, in words.
    """

    topic: str
    mirrored: int | None = None
    partitions: int | None = None
    altered: tuple[str, ...] = ()
    others: tuple[str, ...] | None = ()
    recreated: str = ""
    source_id: str = ""
    copy_id: str = ""
    sealed_id: str = ""
    promotion_epoch: int = 0
    removed: bool = False
    source_fence: FencedTopic | None = None
    fence_stands: bool | None = None
    configs_restored: bool | None = None
    writable: bool | None = None
    shut_out: bool | None = None
    locked_out: tuple[str, ...] = ()
    acls_changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds the last stable offset of a source partition, and with it everybody's later records.

    Or one that names the partition, and may have written nothing there; only a coordinator tells `transactional_id`.
    """

    partition: TopicPartition
    producer_id: int
    since: EpochMs
    transactional_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTransactions:
    """`complete`: False: this login may never see all of them; None: a coordinator does not answer, for `reason`."""

    complete: bool | None = None
    transactions: tuple[OpenTransaction, ...] = ()
    reason: str = ""

    def names(self, at: SourcePartition) -> bool | None:
        """Whether one names `at`, as far as can ever be told."""
        return None if self.complete is None else any(each.partition == at for each in self.transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """`reason`: why `state` is not ALIVE. `authorizer`: whether the source has one; None: not known.

    `near`: topics whose source fence is, or would be, a near one: with an authorizer those that no ACL matches.
    `moves`: it is not ALIVE because leaders of partitions do not answer, while the cluster does: they may be moving.
    `another_cluster`: which connection leads to another cluster than the mirror was created with; empty: none.
    """

    state: SourceState
    reason: str = ""
    moves: bool = False
    another_cluster: str = ""
    authorizer: bool | None = None
    near: frozenset[str] = frozenset()
    uncopied: tuple[Uncopied, ...] = ()
    new_topics: tuple[str, ...] = ()
    """Topics that the mirror's filters match and that are in no mirror, so they have no copy."""
    transactions: tuple[OpenTransaction, ...] = ()
    named: tuple[OpenTransaction, ...] = ()
    """What coordinators still have to end with a marker."""
    transactions_told: bool | None = None
    """False: this login may not see all of them, or the brokers are too old to tell; None: not told now."""
    transactions_reason: str = ""

    def fences_near(self, topic: str) -> bool:
        """Whether records of a few bytes pass the source fence of `topic`."""
        return self.authorizer is False or topic in self.near


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`left`: topics that have taken over or were removed. `map_missing`: the topic of the offset maps is not there.

    `destination`: the name of its connection, for commands that people type.
    """

    now: EpochMs
    source: SourceFacts
    destination: str = ""
    destination_authorizer: bool | None = None
    partitions: tuple[PartitionFacts, ...] = ()
    besides: tuple[str, ...] = ()
    """Topics that are in the mirror, besides those that were asked about."""
    topics: tuple[ObservedTopic, ...] = ()
    workers_alive: int = 0
    logins: tuple[MirrorLogin, ...] = ()
    """With which workers write to the destination, as they have told it."""
    logins_awaited: tuple[str, ...] = ()
    """Workers that have just started, and do not know their login yet."""
    left: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    """Topics that were taken out of the mirror without a failover, whose copies stay closed."""
    detached_elsewhere: tuple[str, ...] = ()
    """Those whose copies are at the source, because the mirror was reversed since."""
    map_missing: bool = False
    followed: GroupSyncStatus | None = None
    """How the positions of groups come to the destination; None: nobody has kept any."""
    groups_unread: bool = False
    """The destination does not tell `followed` for the moment."""
    run: FailoverRun | None = None
    """What is on record of the very plan that is asked about."""
    others_running: tuple[FailoverRun, ...] = ()
    markers_per_second: int = 0
    """What the last failover of this mirror has written here, of all leaders; 0: not measured."""
    """Unfinished runs of other plans of this mirror."""
    is_mapped: bool = False
    """Whether the copies have offsets of their own (`MirrorSpec.is_mapped`)."""
    fences_source: bool = True
    grants_writers: bool = True
    """As the mirror is set (`MirrorSpec.fence_source`, `grant_writers`)."""
    undecided: tuple[TailFinding, ...] = ()
    """Tails about which nobody had decided when the mirror was reversed, and which nobody has accepted since."""

    def of(self, topics: Iterable[str]) -> Iterator[ObservedTopic]:
        wanted = frozenset(topics)
        return (seen for seen in self.topics if seen.topic in wanted)

    def marked(self, mark: str) -> bool:
        return self.run is not None and mark in self.run.marks


def is_locked(facts: Facts) -> bool:
    """Whether the run is on record as the one that holds the mirror."""
    return facts.run is not None and facts.run.status is RunStatus.RUNNING


def fence_settled(seen: ObservedTopic, mode: Mode) -> bool:
    """What can be done about this topic's producers has been done.

    Planned: proved, and seen to stand; unknown is no fence, because a drain behind one that leaks proves nothing.
    Unplanned: owed is enough, and what was proved counts until it is seen to be gone: of a source that does not answer
    no more can be had, and nobody waits for it.
    """
    if seen.source_fence is None:
        return False
    proved = seen.source_fence.status in {FenceStatus.PROVED, FenceStatus.UNPROVED}
    if mode is Mode.PLANNED:
        return proved and seen.fence_stands is True
    return seen.source_fence.status is FenceStatus.PENDING or (proved and seen.fence_stands is not False)


def source_settled(topics: Iterable[str], mode: Mode, facts: Facts) -> bool:
    """What can be done about the producers of `topics` has been done.

    Where the mirror fences no source, a planned failover has only seen that they were still.
    """
    wanted = frozenset(topics)
    seen = list(facts.of(wanted))
    if not facts.fences_source:
        return facts.marked("fence")
    return len(seen) == len(wanted) and all(fence_settled(each, mode) for each in seen)


SKEW_MS: Final = 5_000
"""Of the clocks of workers and operators: an answer from further ahead says nothing."""
RECENT_MS: Final = 30_000
"""A last look that is not older than this, when the source fell silent or now, is usual in an unplanned failover."""


def open_until(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> EpochMs:
    """Until when the source may have accepted records that nobody has seen, ms since 1970.

    `dead_since`: when the source accepted its last record, as somebody attests; None: nobody does.
    """
    ends = (end for end in (dead_since, each.fenced_since) if end is not None)
    return EpochMs(min((now, *ends)))


def is_final(each: PartitionFacts, dead_since: EpochMs | None) -> bool:
    """Whether the end that was seen last is the end of the source's records.

    It was seen after the source is attested to have died, or when a source fence was proved, or later. A source may die
    just after an answer, so one at the attested time itself says nothing.
    """
    if each.fenced_since is not None and (each.live is not None or _seen_at(each) >= each.fenced_since):
        return True
    return each.live is None and dead_since is not None and _seen_at(each) > dead_since


def is_recent(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs) -> bool:
    """Whether little can have come since the last look: the source was asked in vain soon after it, or it is recent."""
    if each.live is not None or is_final(each, dead_since):
        return True
    if each.known is None:
        return False
    until = open_until(each, dead_since, now)
    if each.known.silent_since is not None:
        until = min(until, each.known.silent_since)
    return -SKEW_MS <= until - each.known.at <= RECENT_MS


def unseen(each: PartitionFacts, dead_since: EpochMs | None, now: EpochMs, until: EpochMs) -> int:
    """Offsets that the source would use between its last answer and `until`, at its last rate; an estimate."""
    if each.known is None or is_final(each, dead_since):
        return 0
    seen = each.known.at if each.live is None else now
    ms = max(0, open_until(each, dead_since, until) - seen)
    return ceil(each.known.rate * ms / 1000)


def _seen_at(each: PartitionFacts) -> EpochMs:
    return EpochMs(-1) if each.known is None else each.known.at
