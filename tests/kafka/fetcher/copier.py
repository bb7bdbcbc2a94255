"""A worker as the service makes it, without membership and state machine: lanes that follow the source's leaders."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from tanist.domain.compaction import Holes
from tanist.domain.names import DestinationOffset
from tanist.domain.small_batches import may_merge
from tanist.fetcher.assignment import Assigned, PartitionKey
from tanist.fetcher.claims import Claims, held_epoch
from tanist.fetcher.fetcher_thread import FetcherThread
from tanist.fetcher.fetcher_threads import FetcherThreads
from tanist.fetcher.sources import SourceLeaders, SourceTopic, by_lane
from tanist.fetcher.throttle import Throttle
from tanist.fetcher.tools import FetcherThreadTools
from tanist.fetcher.totals import WorkerTotals
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.membership import Ownership

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.limits import LimitKey
    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import FetcherThreadKey, Report
    from tanist.ports.state import StateStore

SLICE = 7
FOR_EVER = 1e6
DAY_MS = 86_400_000
TICK_SECONDS = 0.05


@dataclass(kw_only=True)
class Copier:
    """`with copier:` copies; `own` changes its lease while it does."""

    spec: MirrorSpec
    source: Endpoint
    destination: Endpoint
    store: StateStore
    partitions: tuple[MirrorPartition, ...]
    name: str = "w1"
    remembered_ms: int = DAY_MS
    lease_seconds: float = FOR_EVER
    clock: SystemClock = field(default_factory=SystemClock)
    holes: Holes = Holes.REFUSE
    compacted: bool = True
    """With `holes`: whether the source is known to be compacted."""
    topic_ids: Mapping[str, UUID | None] = field(default_factory=dict)
    """Of the source's topics when they were added to the mirror."""
    tombstones_kept_ms: int = DAY_MS
    caught_up_at: EpochMs | None = None
    """As stored by the worker before."""
    copy_starts: Mapping[MirrorPartition, DestinationOffset] = field(default_factory=dict)
    """Of mirror partitions that had records before the mirror."""
    limits: tuple[LimitKey, ...] = ()
    """Under which all partitions are read; `throttle` is given their shares."""

    def __post_init__(self) -> None:
        self.claims = Claims(self.name, self.store, self.clock)
        self.throttle, self.totals = Throttle(self.clock), WorkerTotals()
        self._leaders = SourceLeaders(lambda: self.source, f"test-{self.name}", self.clock)
        self.lanes = FetcherThreads(self._lane, self.clock, self.totals)
        self._assigned: dict[PartitionKey, Assigned] = {}
        self.made: list[FetcherThread] = []
        self.died: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"copier-{self.name}", daemon=True)

    def own(self, seconds: float) -> None:
        """Hold the lease of every slice for `seconds` from now on; 0: not any more."""
        self.lease_seconds = seconds
        self.claims.renew(Ownership(frozenset({SLICE}), self.clock.monotonic(), seconds))

    def alter(self, spec: MirrorSpec) -> None:
        """The settings of the mirror have changed, and the worker has read that."""
        self.spec = spec
        self._assigned = {key: replace(each, spec=spec) for key, each in self._assigned.items()}

    def __enter__(self) -> Self:
        self.own(self.lease_seconds)
        self._assigned = self._assignment()
        self._thread.start()
        return self

    def extend(self, partitions: tuple[MirrorPartition, ...]) -> None:
        """Copy these as well, beside those that go on as they are."""
        before, self.partitions = self._assigned, (*self.partitions, *partitions)
        self._assigned = self._assignment() | before

    def _assignment(self) -> dict[PartitionKey, Assigned]:
        view = self.claims.claim(frozenset({SLICE}), self.clock.deadline(5))
        epoch = held_epoch(view, SLICE)
        merges = may_merge(self.spec, (), self.clock.now())
        return {
            PartitionKey(self.spec.mirror, at): Assigned(
                self.spec,
                at,
                SLICE,
                epoch,
                merges=merges,
                compacted=self.compacted,
                holes=self.holes,
                source_topic_id=self.topic_ids.get(at.topic),
                tombstones_kept_ms=self.tombstones_kept_ms,
                copy_start=self.copy_starts.get(at, DestinationOffset(0)),
                caught_up_at=self.caught_up_at,
                limits=self.limits,
            )
            for at in self.partitions
        }

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(20)
        self._leaders.close()
        if self.died is not None:
            raise self.died
        assert not self._thread.is_alive()

    def reports(self) -> Mapping[MirrorPartition, Report]:
        return {copied.partition: report for copied, report in self.lanes.reports().items()}

    def deaths(self) -> list[BaseException]:
        """What lanes died of: it must be empty, a lane that dies has a bug."""
        return [lane.died for lane in self.made if lane.died is not None]

    def _lane(self, key: FetcherThreadKey, spec: MirrorSpec) -> FetcherThread:
        lane = FetcherThread(
            key,
            FetcherThreadTools(
                spec=spec,
                source=self.source,
                destination=self.destination,
                maps=self.store,
                claims=self.claims,
                clock=self.clock,
                client_id=f"test-{self.name}-{key.broker}",
                throttle=self.throttle,
                remembered_ms=self.remembered_ms,
                losses=self.store,
                state=self.store.catch_up,
                totals=self.totals.of_thread(key),
            ),
        )
        self.made.append(lane)
        return lane

    def _run(self) -> None:
        try:
            while not self._stopping.wait(TICK_SECONDS):
                topics = {at.topic: SourceTopic(at.partition + 1) for at in sorted(self.partitions)}
                self._leaders.look(self.spec, topics, self.clock.deadline(5), stale=self.lanes.stale(self.spec.mirror))
                self.lanes.apply(by_lane(self._assigned, {self.spec.mirror: self._leaders}))
        except BaseException as bug:  # noqa: BLE001  # raised by __exit__
            self.died = bug
        finally:
            self.lanes.stop(8)
