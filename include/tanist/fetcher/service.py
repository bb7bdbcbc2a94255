"""The fetcher service in this process: built from its parts, run until it is stopped."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.followed import is_followed
from tanist.domain.state_view import NOTHING_YET
from tanist.fetcher.claims import Claims
from tanist.fetcher.coordination import Coordination, OwnLogin, Worker
from tanist.fetcher.duties import Duties, DutyTools
from tanist.fetcher.fence_reconciler import FenceReconciler, Guards
from tanist.fetcher.fetcher_thread import FetcherThread
from tanist.fetcher.fetcher_threads import FetcherThreads
from tanist.fetcher.group_tail import GroupTails, TailsTools, looks_after
from tanist.fetcher.health import WorkerFacts
from tanist.fetcher.metrics import Scraped
from tanist.fetcher.throttle import Throttle
from tanist.fetcher.tools import FetcherThreadTools
from tanist.fetcher.totals import WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from threading import Event

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import FetcherThreadKey
    from tanist.fetcher.duties import DutyRunner
    from tanist.fetcher.metrics import MirrorVerdicts
    from tanist.fetcher.rounds import RoundThread
    from tanist.ports.access import Access
    from tanist.ports.clock import Clock
    from tanist.ports.membership import Membership, Ownership
    from tanist.ports.state import StateStore

log = logging.getLogger(__name__)

END_SECONDS: Final = 12.0
LOOK_SECONDS: Final = 0.5
COLLECT_AFTER: Final = 20_000
"""Threshold of the cyclic garbage collector. Copying creates hundreds of thousands of objects per second, no cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The dependencies of the service. `state`, `maps`, `groups` are this worker's writers of the state topics."""

    worker: Worker
    destination: Endpoint
    resolve: Callable[[str], Endpoint]
    state: StateStore
    maps: StateStore
    membership: Callable[[Callable[[Ownership], None]], Membership]
    """Joins the consumer group; its argument is called with the remaining partitions before others are revoked."""
    clock: Clock
    state_partitions: int
    remembered_ms: int
    """`producer.id.expiration.ms` of the destination's brokers."""
    groups: StateStore | None = None
    """None: group offsets are not followed."""
    guards: Guards | None = None
    """Reconciles fences after failovers; None: not done here."""
    duties: Callable[[Event], DutyRunner] | None = None
    """Makes what does the periodic duties of mirrors, as `DutyTools.runner` has it; None: they are not done here."""
    access: Access | None = None
    """Determines our principal at the destination; None: not reported."""


class Service:
    """`start` it, `stop` it; `failed` is the error if it ended by itself."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._totals = WorkerTotals()
        self._claims = Claims(parts.worker.id, parts.state, parts.clock)
        self._throttle = Throttle(parts.clock)
        self._coordination = Coordination(
            worker=parts.worker,
            state=parts.state,
            membership=parts.membership(self._claims.renew),
            claims=self._claims,
            throttle=self._throttle,
            threads=FetcherThreads(self._thread, parts.clock, self._totals),
            resolve=parts.resolve,
            state_partitions=parts.state_partitions,
            clock=parts.clock,
            own_login=OwnLogin(parts.access, parts.clock, parts.worker.id) if parts.access else None,
            totals=self._totals,
        )
        self._tails = self._group_tails(parts.groups) if parts.groups else None
        self._debts = self._settling(parts.guards) if parts.guards else None
        self._duties = self._periodic(parts.duties) if parts.duties else None

    def _settling(self, guards: Guards) -> FenceReconciler:
        return FenceReconciler(
            guards, self._parts.state, self._parts.state_partitions, self._parts.clock, self._claims.holds
        )

    def _periodic(self, runner: Callable[[Event], DutyRunner]) -> Duties:
        parts = self._parts
        return Duties(
            DutyTools(
                worker=parts.worker.id,
                runner=runner,
                state=parts.state,
                state_partitions=parts.state_partitions,
                holds=self._claims.holds,
                clock=parts.clock,
                totals=self._totals,
            )
        )

    def _group_tails(self, groups: StateStore) -> GroupTails:
        parts = self._parts
        return GroupTails(
            TailsTools(
                worker=parts.worker.id,
                resolve=parts.resolve,
                state=parts.state,
                groups=groups,
                claims=self._claims,
                clock=parts.clock,
                state_partitions=parts.state_partitions,
                totals=self._totals,
            )
        )

    def _thread(self, key: FetcherThreadKey, spec: MirrorSpec) -> FetcherThread:
        parts = self._parts
        return FetcherThread(
            key,
            FetcherThreadTools(
                spec=spec,
                source=parts.resolve(spec.source),
                destination=parts.destination,
                maps=parts.maps,
                claims=self._claims,
                clock=parts.clock,
                client_id=key.client_id,
                throttle=self._throttle,
                remembered_ms=parts.remembered_ms,
                state=parts.state.catch_up,
                losses=parts.state,
                totals=self._totals.of_thread(key),
                source_state=lambda by: parts.guards.sources.read(spec, by) if parts.guards else NOTHING_YET,
            ),
        )

    @property
    def _stores(self) -> tuple[StateStore, ...]:
        parts = self._parts
        return (parts.state, parts.maps, *((parts.groups,) if parts.groups else ()))

    @property
    def _beside(self) -> tuple[RoundThread, ...]:
        return tuple(thread for thread in (self._tails, self._debts, self._duties) if thread is not None)

    @property
    def failed(self) -> BaseException | None:
        """The fatal error of a thread, or of a state topic that was lost; None: none.

        Without a thread its work is not done; without the topic a worker would own partitions without updates.
        """
        threads = (thread.died for thread in (self._coordination, *self._beside))
        return next((why for why in (*threads, *(store.ended() for store in self._stores)) if why), None)

    @property
    def alive(self) -> bool:
        return self._coordination.is_alive()

    @property
    def rounds(self) -> int:
        """The number of rounds of the coordination thread; grows unless the service hangs."""
        return self._coordination.rounds

    def held(self) -> frozenset[MirrorName]:
        """The mirrors that this worker looks after now, as one worker does for each; not those that others copy."""
        parts, claims = self._parts, self._claims
        specs = (spec for spec in parts.state.view().mirrors() if not is_followed(spec))
        return frozenset(s.mirror for s in specs if looks_after(claims, s.mirror, parts.state_partitions))

    def scraped(self, verdicts: Mapping[MirrorName, MirrorVerdicts]) -> Scraped:
        """What the metrics are made of now. From any thread."""
        parts, coordination = self._parts, self._coordination
        return Scraped(
            now=parts.clock.now(),
            state=parts.state.view(),
            groups=parts.groups.view() if parts.groups else NOTHING_YET,
            assigned=coordination.assigned,
            reports=coordination.reports,
            totals=self._totals,
            dead_threads=coordination.dead_threads,
            held=self.held(),
            verdicts=verdicts,
        )

    def health(self, others: Sequence[RoundThread] = ()) -> WorkerFacts:
        """What the probes judge now, `others` of this process besides its own threads. From any thread."""
        parts, threads = self._parts, (self._coordination, *self._beside, *others)
        mine = next((each for each in parts.state.view().workers() if each.worker == parts.worker.id), None)
        ended = [each.ended for each in threads if each.ended]
        lost = [f"a state topic is not read any more: {why}" for each in self._stores if (why := each.ended())]
        return WorkerFacts(
            ended=(*ended, *lost),
            round_at=self._coordination.round_at,
            monotonic=parts.clock.monotonic(),
            heartbeat=None if mine is None or mine.started_at != parts.worker.started_at else mine.at,
            ownership=self._claims.ownership,
            claimed=self._coordination.claimed,
            now=parts.clock.now(),
        )

    def start(self) -> None:
        self._coordination.start()
        for thread in self._beside:
            thread.start()

    def stop(self) -> None:
        """Complete batches in flight, release state partitions, then close the stores."""
        for thread in self._beside:
            thread.stop()
        self._coordination.stop()
        self._coordination.join(END_SECONDS)
        for thread in self._beside:
            thread.join(END_SECONDS)
        for store in self._stores:
            store.close()


def run_until_told(service: Service, stop: threading.Event, report: Callable[[int], None]) -> BaseException | None:
    """Run `service` in the foreground until SIGTERM, SIGINT, SIGHUP or `stop`; returns the fatal error, or None.

    `report` is called every half second with the number of rounds.

    Must be called in the main thread: only there signals can be handled.
    """
    with _told_by_signals(stop):
        _spare_the_collector()
        service.start()
        while service.alive and not service.failed and not stop.wait(LOOK_SECONDS):
            report(service.rounds)
        failed = service.failed
        service.stop()
    return failed


@contextmanager
def _told_by_signals(stop: threading.Event) -> Iterator[None]:
    """A thread sets `stop` once a signal comes.

    A handler runs in the main thread: if it set the event while that thread is in `stop.wait` and holds the event's
    lock, it would wait for itself for ever.
    """
    ends = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        ends.remove(signal.SIGHUP)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)

    def listen() -> None:
        while number := os.read(reads, 1):
            if number[0] in ends:
                stop.set()

    thread = threading.Thread(target=listen, name="tanist-signals", daemon=True)
    thread.start()
    before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    for number in ends:
        signal.signal(number, lambda *_: None)  # one that Python handles is written to the pipe
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writes)
        thread.join()
        os.close(reads)


def _spare_the_collector() -> None:
    """Exclude imported objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
