"""A worker: what it says of partitions, and what it settles, is the product's; only the copying is modelled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.names import SourcePartition, TopicPartition
from tests.explorer.place import DR, GROUP, PARTITIONS
from tests.explorer.pointed import Pointed, side
from tests.explorer.product import (
    EVERY_SECONDS,
    GROUPS_TOPIC,
    STATE_PARTITIONS,
    STATE_TOPIC,
    WORKER,
    CommandContext,
    EpochMs,
    FenceReconciler,
    Finding,
    GroupPosition,
    GroupSyncStatus,
    Guards,
    MemoryFencing,
    MemoryProducerFencing,
    MemoryReplicas,
    MemoryStateStore,
    MirrorState,
    Moment,
    OffsetTailMode,
    Purpose,
    Report,
    SourceEnd,
    SourceEnds,
    SourceOffset,
    TanistError,
    WorkerAlive,
    mirror_lock,
    next_observed,
    owned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from tanist.domain.promotions import PromotionRecord
    from tanist.domain.state_record import StateRecord
    from tanist.fetcher.planning import Owned
    from tanist.usecases.lock import LockedMirror
    from tests.explorer.place import Ground
    from tests.explorer.product import Deadline, GuardedCluster, MirrorName, MirrorSpec, StateView

ROUND_SECONDS: Final = 1.0
NEWS_SECONDS: Final = 5.0
ALL: Final = frozenset(range(STATE_PARTITIONS))
MOST_A_ROUND: Final = 60
_FINDINGS: Final = {
    MirrorState.PREPARING: Finding.ALIGNED,
    MirrorState.PAUSING: Finding.QUIET,
    MirrorState.STOPPING: Finding.FENCED,
}


class _SourceStates:
    """The port `SourceStates`. `named`: the clusters by their names."""

    def __init__(self, named: Mapping[str, GuardedCluster]) -> None:
        self._named = named

    def read(self, spec: MirrorSpec, by: Deadline) -> StateView:
        source = self._named[spec.source]
        source.answer()
        return MemoryStateStore(source, STATE_TOPIC).catch_up(by)

    def report_promotions(self, spec: MirrorSpec, promotions: Sequence[PromotionRecord], by: Deadline) -> None:
        source = self._named[spec.source]
        source.answer()
        if STATE_TOPIC not in source.topics:
            source.with_topic(STATE_TOPIC)
        MemoryStateStore(source, STATE_TOPIC, WORKER).append(promotions, by)

    def close(self) -> None:
        pass


@dataclass
class Worker:
    """Of the mirrors that copy from `away` to `home`; None: from east to west."""

    place: Ground
    name: str = "worker"
    home: GuardedCluster | None = None
    away: GuardedCluster | None = None
    _news_at: float = field(default=float("-inf"))
    _looked_after: tuple[StateView | None, tuple[Owned, ...]] = (None, ())

    def __post_init__(self) -> None:
        place = self.place
        home, away = self.home or place.west, self.away or place.east
        self._to: GuardedCluster = home
        self._from: GuardedCluster = away
        named = {each.name: each for each in (home, away)}
        self.state = Pointed(place, "state", MemoryStateStore(home, STATE_TOPIC, WORKER))
        self.groups = MemoryStateStore(home, GROUPS_TOPIC, WORKER)
        guards = Guards(
            fencing=lambda spec: Pointed(place, "fencing", MemoryFencing(named[spec.source])),
            producer_fencing=Pointed(place, "producer_fencing", MemoryProducerFencing(home)),
            replicas=Pointed(place, "replicas", MemoryReplicas(home)),
            sources=Pointed(place, "sources", _SourceStates(named)),
            lock=self._lock,
            topics=place.held_topics(away),
        )
        self.debts = FenceReconciler(guards, self.state, STATE_PARTITIONS, place.clock, lambda _slice: True)

    def enter(self) -> None:
        """Two threads of one process."""
        self.place.stage.enter(self.name, self._copies, extra=True)
        self.place.stage.enter(f"{self.name}'s debts", self._settles, extra=True)

    def _lock(self, mirror: MirrorName, operation: str, by: Deadline) -> AbstractContextManager[LockedMirror]:
        run = CommandContext(clock=self.place.clock, by=by, holder=self.name)
        return mirror_lock(side(self.place, self._to), mirror, Purpose(operation=operation, preemptible=True), run)

    def _copies(self) -> None:
        while True:
            self.round()
            self.place.clock.wait(ROUND_SECONDS)

    def _settles(self) -> None:
        while True:
            self.place.clock.wait(EVERY_SECONDS)
            try:
                self.debts.reconcile_all(self.state.view())
            except TanistError as why:
                self.place.stage.say(f"debts are not settled: {why.name}")

    def round(self) -> None:
        """As the coordination thread: what fails is tried again in the next one."""
        try:
            view = self.state.catch_up(self._soon())
            self.place.beats = self.place.stage.now
            if written := [*self._observed(view), *self._news(view)]:
                view = self.state.append(written, self._soon())
            self._copy(view)
        except TanistError as why:
            self.place.stage.say(f"a round failed: {why.name}")

    def _owned(self, view: StateView) -> tuple[Owned, ...]:
        """Worked out once for each view."""
        if self._looked_after[0] is not view:
            self._looked_after = (view, owned(view, ALL, STATE_PARTITIONS))
        return self._looked_after[1]

    def _soon(self) -> Deadline:
        return self.place.clock.deadline(10)

    def _observed(self, view: StateView) -> list[StateRecord]:
        now = Moment(self.place.clock.now(), self.place.clock.monotonic())
        found: list[StateRecord] = []
        for mine in self._owned(view):
            held = view.observed(mine.spec.mirror, mine.partition)
            state = held.state if held else MirrorState.UNKNOWN
            report = Report(finding=_FINDINGS.get(state))
            if new := next_observed(mine, held, report, 1, now):
                found.append(new)
        return found

    def _news(self, view: StateView) -> list[StateRecord]:
        now = self.place.clock
        if now.monotonic() - self._news_at < NEWS_SECONDS:
            return []
        self._news_at = now.monotonic()
        written: list[StateRecord] = [
            WorkerAlive(
                worker=self.name, version="1", host="h", started_at=EpochMs(0), at=now.now(), principal="User:mirror"
            )
        ]
        if self._from.dead:
            return written
        for spec in {mine.spec.mirror: mine.spec for mine in self._owned(view)}.values():
            ours = [at for at in PARTITIONS if at in self._from.ends]
            seen = tuple(_end(at, self._from.ends[at]) for at in ours)
            written.append(SourceEnds(mirror=spec.mirror, mirror_id=spec.id, chunk=0, ends=seen, at=now.now()))
            self._follow(spec)
        return written

    def _follow(self, spec: MirrorSpec) -> None:
        """Positions of groups are kept at the destination."""
        at_ms, held = self.place.clock.now(), self.place.source_positions()
        kept: list[StateRecord] = [
            GroupPosition(
                mirror=spec.mirror,
                mirror_id=spec.id,
                group=GROUP,
                partition=SourcePartition(*at),
                offset=SourceOffset(each.offset),
                at=at_ms,
            )
            for at, (_, each) in held.items()
        ]
        reported = GroupSyncStatus(
            mirror=spec.mirror,
            mirror_id=spec.id,
            worker=self.name,
            mode=OffsetTailMode.TAILING,
            groups=1,
            complete_until_ms=at_ms,
            at=at_ms,
        )
        self.groups.append([*kept, reported], self._soon())

    def _copy(self, view: StateView) -> None:
        """Modelled: an append lands right after the previous one or not at all, so nothing is ever copied twice."""
        self.place.stage.point("worker.copy")
        away, home = self._from, self._to
        now = MemoryStateStore(home, STATE_TOPIC).view().mirror(DR)
        if away.dead or home.dead:
            return
        for mine in self._owned(view):
            at, held = mine.partition, view.observed(mine.spec.mirror, mine.partition)
            if held is None or held.state not in {MirrorState.MIRRORING, MirrorState.PAUSING}:
                continue
            if now is None or now.data_id != mine.spec.data_id or not (at in home.ends and at in away.ends):
                continue
            if view.promoted(mine.spec.mirror, at.topic) or home.epochs.get((at, now.data_id), -1) > 0:
                continue
            if (count := min(MOST_A_ROUND, away.ends[at][1] - home.ends[at][2])) > 0:
                self.place.copy(now, at, count)


def _end(at: TopicPartition, ends: tuple[int, int, int]) -> SourceEnd:
    start, stable, high = ends
    return SourceEnd(SourcePartition(*at), SourceOffset(high), SourceOffset(stable), log_start=SourceOffset(start))
