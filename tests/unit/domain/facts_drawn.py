"""Facts of a mirror: healthy ones, and ones drawn at random."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import (
    Facts,
    LiveEnd,
    ObservedTopic,
    OpenTransaction,
    PartitionFacts,
    SourceFacts,
    SourceState,
    TransactionalProducers,
    Uncopied,
)
from tanist.domain.failover.plan import Intent, TopicIntent
from tanist.domain.failover.reserve import DEFAULT_RESERVE
from tanist.domain.fences import STRAY, FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.lag import KnownEnd
from tanist.domain.logins import MirrorLogin
from tanist.domain.names import (
    BrokerId,
    DestinationOffset,
    EpochMs,
    MirrorName,
    MirrorPartition,
    SourceOffset,
    SourcePartition,
)
from tanist.domain.records import FailoverRun, GroupSyncStatus, OffsetTailMode
from tanist.domain.states import MirrorState
from tanist.domain.tails import FindingKind, TailFinding
from tests.builders import a_run

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
NOW = EpochMs(1_000_000)
MIRROR = MirrorName("dr")
TOPICS = {"orders": 2, "bills": 1}
PARTITIONS = tuple(MirrorPartition(topic, n) for topic, count in TOPICS.items() for n in range(count))


def intents(topics: Sequence[str] = tuple(TOPICS)) -> dict[Mode, Intent]:
    """Both kinds of failover of `topics`, before the facts fill in the rest."""
    wanted = tuple(TopicIntent(topic=topic, partitions=TOPICS[topic]) for topic in topics)
    return {
        mode: Intent(
            mirror=MIRROR,
            mode=mode,
            source_cluster_id="e",
            destination_cluster_id="w",
            topics=wanted,
            reserve=DEFAULT_RESERVE if mode is Mode.UNPLANNED else 0,
        )
        for mode in Mode
    }


def partition(at: MirrorPartition, source_end: int = 10, copied: int = 10) -> PartitionFacts:
    """One that mirrors, of a source that answers."""
    return PartitionFacts(
        partition=at,
        state=MirrorState.MIRRORING,
        live=LiveEnd(SourceOffset(source_end), SourceOffset(source_end), SourceOffset(source_end)),
        known=KnownEnd(SourceOffset(copied), EpochMs(NOW - 1_000), 0.0, SourceOffset(0)),
        start=DestinationOffset(0),
        first=DestinationOffset(0),
        end=DestinationOffset(copied),
        copied=SourceOffset(copied),
        foreign=False,
        named=False,
        in_sync=3,
        min_in_sync=2,
        producer_fenced=False,
    )


def topic(name: str) -> ObservedTopic:
    return ObservedTopic(topic=name, mirrored=TOPICS[name], partitions=TOPICS[name])


FOLLOWED = GroupSyncStatus(
    mirror=MIRROR, worker="w", mode=OffsetTailMode.TAILING, complete_until_ms=EpochMs(NOW - 500), at=NOW
)
HEALTHY = Facts(
    destination="west",
    now=NOW,
    source=SourceFacts(state=SourceState.ALIVE, authorizer=True, transactions_told=True),
    destination_authorizer=True,
    partitions=tuple(partition(at) for at in PARTITIONS),
    topics=tuple(topic(name) for name in TOPICS),
    workers_alive=1,
    followed=FOLLOWED,
)


def changed(number: int = 0, facts: Facts = HEALTHY, **changes: object) -> Facts:
    """`facts` with one partition altered."""
    one = replace(facts.partitions[number], **changes)  # type: ignore[arg-type]
    return replace(facts, partitions=(*facts.partitions[:number], one, *facts.partitions[number + 1 :]))


def source(facts: Facts = HEALTHY, **changes: object) -> Facts:
    """`facts` with something altered that was seen of the source."""
    return replace(facts, source=replace(facts.source, **changes))  # type: ignore[arg-type]


def silent(facts: Facts = HEALTHY, age_ms: int = 1_000, vain_ms: int | None = None) -> Facts:
    """The source does not answer; `age_ms`: since it was last seen, `vain_ms`: since a worker first asked in vain."""
    seen = EpochMs(NOW - age_ms)
    since = None if vain_ms is None else EpochMs(NOW - vain_ms)
    without = tuple(
        replace(each, live=None, known=each.known and replace(each.known, at=seen, silent_since=since))
        for each in facts.partitions
    )
    return replace(source(facts, state=SourceState.SILENT, reason="refused"), partitions=without)


# ── drawn ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mostly(luck: Random, usual: _T, *other: _T) -> _T:
    return luck.choice(other) if luck.random() < 0.08 else usual


def _partition(luck: Random, at: MirrorPartition, state: SourceState) -> PartitionFacts:
    end, behind = luck.randrange(100), _mostly(luck, 0, 1, 7, 60)
    answers = state is SourceState.ALIVE or (state is SourceState.PARTLY and luck.random() < 0.5)
    seen = EpochMs(NOW - luck.choice((500, 8_000, 29_000, 31_000, 600_000)))
    found = partition(at, end + behind, end)
    start = DestinationOffset(_mostly(luck, 0, 3, 50))
    return replace(
        found,
        state=_mostly(luck, MirrorState.MIRRORING, *MirrorState),
        error=_mostly(luck, None, "FOREIGN_WRITE", "RECORD_TOO_LARGE", "SOURCE_TRUNCATED"),
        live=found.live if answers else None,
        known=_mostly(luck, KnownEnd(SourceOffset(end), seen, luck.choice((0.0, 3.5)), None), None),
        fenced_since=_mostly(luck, None, EpochMs(seen - 100), EpochMs(seen + 5_000)),
        start=start,
        first=_mostly(luck, DestinationOffset(max(start, 3)), DestinationOffset(0), None),
        end=_mostly(luck, found.end, None),
        copied=_mostly(luck, found.copied, None),
        foreign=_mostly(luck, False, True, None),
        longer=_mostly(luck, False, True, None) if answers else False,
        in_sync=_mostly(luck, 3, None, 0, 1),
        min_in_sync=_mostly(luck, 2, None),
        producer_fenced=_mostly(luck, False, None),
    )


def _topic(luck: Random, name: str) -> ObservedTopic:
    return replace(
        topic(name),
        partitions=_mostly(luck, TOPICS[name], TOPICS[name] + 1, None),
        altered=_mostly(luck, (), ("retention.ms=1000",)),
        others=_mostly(luck, (), ("User:eve",)),
        recreated=_mostly(luck, "", f"{name} was deleted and created again"),
        removed=_mostly(luck, False, True),
    )


def _run(luck: Random) -> FailoverRun:
    return a_run(no_return=luck.random() < 0.5, started_at=NOW, at=NOW)


def _fence(luck: Random, name: str, state: SourceState) -> FencedTopic | None:
    """As the commands store it, or as a source that answers reports it."""
    if luck.random() < 0.5:
        return None
    stored: list[FenceStatus] = [each for each in FenceStatus if each is not FenceStatus.UNRECORDED]
    status = luck.choice(stored if state is SourceState.SILENT else [*stored, *[FenceStatus.UNRECORDED] * 3])
    deny = FenceBefore(topic=name, kind=FenceKind.DENY_WRITE)
    tiny = FenceBefore(topic=name, kind=FenceKind.TINY_MESSAGES)
    before = luck.choice((deny, deny, replace(deny, had_deny=True), tiny))
    never = status is FenceStatus.PENDING and luck.random() < 0.5
    unproved = status in {FenceStatus.SNAPSHOT, FenceStatus.UNPROVED, FenceStatus.UNRECORDED} or never
    asked = status in {FenceStatus.LIFT_PENDING, FenceStatus.PENDING} and not never
    return FencedTopic(
        topic=name,
        status=status,
        wanted_by="" if status is FenceStatus.UNRECORDED else "beef",
        before=None if never else before,
        reason=STRAY if status is FenceStatus.LIFTED and luck.random() < 0.3 else "",
        proved_at=None if unproved else EpochMs(NOW - luck.choice((400, 20_000, 900_000))),
        lift_asked_at=EpochMs(NOW - luck.choice((300, 10_000, 800_000))) if asked else None,
    )


def _topic_too(luck: Random, seen: ObservedTopic, state: SourceState) -> ObservedTopic:
    told = state is not SourceState.SILENT
    return replace(
        seen,
        source_id=luck.choice(("", "s1")),
        copy_id=luck.choice(("", "c1")),
        sealed_id=_mostly(luck, "", "c1", "c0"),
        promotion_epoch=luck.choice((0, 0, 3)),
        source_fence=_fence(luck, seen.topic, state),
        fence_stands=luck.choice((True, False, None)) if told else None,
        configs_restored=luck.choice((True, False, None)),
        writable=luck.choice((True, False, None)),
        shut_out=luck.choice((True, False, None)),
        locked_out=_mostly(luck, (), ("User:bob",)),
        acls_changed=_mostly(luck, (), ("allow User:late was added",)) if told else (),
    )


def _partition_too(luck: Random, each: PartitionFacts) -> PartitionFacts:
    return replace(
        each,
        named=luck.choice((True, False, None)),
        last_mirrored_epoch=luck.choice((-1, 4)),
        leader=luck.choice((None, BrokerId(1), BrokerId(2))),
        tombstones_missed=_mostly(luck, False, True),
        transactional=luck.choice(tuple(TransactionalProducers)),
    )


def _too(luck: Random, facts: Facts) -> Facts:
    """What healthy facts do not say at all, in every second draw."""
    if luck.random() < 0.5:
        return facts
    state = facts.source.state
    undecided = TailFinding("orders", 1, FindingKind.UNDECIDED, 4)
    return replace(
        facts,
        now=EpochMs(NOW + luck.choice((0, 0, 40_000, 90_000_000))),
        source=replace(facts.source, moves=state is not SourceState.ALIVE and luck.random() < 0.3),
        destination=luck.choice(("", "west")),
        partitions=tuple(_partition_too(luck, each) for each in facts.partitions),
        topics=tuple(_topic_too(luck, each, state) for each in facts.topics),
        besides=_mostly(luck, (), ("refunds",)),
        left=_mostly(luck, (), ("old",)),
        detached=_mostly(luck, (), ("apart",)),
        logins=luck.choice(((), (MirrorLogin("User:mirror"),), (MirrorLogin("User:root", "it is a super user"),))),
        logins_awaited=_mostly(luck, (), ("worker-9",)),
        groups_unread=facts.followed is None and luck.random() < 0.5,
        run=_mostly(luck, None, _run(luck)),
        markers_per_second=luck.choice((0, 40_000)),
        undecided=_mostly(luck, (), (undecided,)),
        is_mapped=luck.random() < 0.2,
        fences_source=_mostly(luck, True, False),
        grants_writers=_mostly(luck, True, False),
    )


def drawn(seed: int) -> Facts:
    """Mostly healthy, and everything that can be otherwise sometimes is."""
    return _too(Random(f"{seed}, too"), _drawn(seed))


def _drawn(seed: int) -> Facts:
    luck = Random(seed)
    state = luck.choice(tuple(SourceState))
    more = Uncopied(SourcePartition("orders", TOPICS["orders"]), luck.choice((0, 200, None)))
    transaction = OpenTransaction(PARTITIONS[0], 7, EpochMs(NOW - 5_000))
    return Facts(
        now=NOW,
        source=SourceFacts(
            state=state,
            reason="" if state is SourceState.ALIVE else "refused",
            another_cluster=_mostly(luck, "", "'east' leads to cluster x"),
            authorizer=_mostly(luck, True, False, None),
            uncopied=_mostly(luck, (), (more,)),
            new_topics=() if state is SourceState.SILENT else _mostly(luck, (), ("refunds",)),
            transactions=_mostly(luck, (), (transaction,)),
            transactions_told=_mostly(luck, True, False, None),
        ),
        destination_authorizer=_mostly(luck, True, False, None),
        partitions=tuple(_partition(luck, at, state) for at in PARTITIONS),
        topics=tuple(_topic(luck, name) for name in TOPICS),
        workers_alive=_mostly(luck, 1, 0),
        map_missing=_mostly(luck, False, True),
        followed=_mostly(luck, FOLLOWED, None, replace(FOLLOWED, at=EpochMs(NOW - 90_000))),
        others_running=_mostly(luck, (), (_run(luck),)),
    )
