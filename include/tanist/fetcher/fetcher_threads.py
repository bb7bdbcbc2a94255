"""Starts, assigns, restarts and stops the fetcher threads of this process."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from tanist.fetcher.totals import WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import Assigned, Assignment, FetcherThreadKey, PartitionKey, Report
    from tanist.fetcher.fetcher_thread import FetcherThread
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 1.0


class FetcherThreads:
    """Owned by the coordination thread.

    A partition is never in two threads: it is assigned to one only after the other has released it, because within a
    process both would hold the same lease.
    """

    def __init__(
        self,
        make: Callable[[FetcherThreadKey, MirrorSpec], FetcherThread],
        clock: Clock,
        totals: WorkerTotals | None = None,
    ) -> None:
        self.dead: Mapping[MirrorName, int] = {}
        """How many threads of each mirror have ended by themselves and are not restarted yet; replaced whole."""
        self._make = make
        self._clock = clock
        self._totals = totals or WorkerTotals()
        self._threads: dict[FetcherThreadKey, FetcherThread] = {}
        self._leaving: list[FetcherThread] = []
        self._not_before: dict[FetcherThreadKey, float] = {}
        self._parts: list[Mapping[PartitionKey, Report]] = []
        self._reports: dict[PartitionKey, Report] = {}
        """Of all threads, made of `_parts`."""
        self._given: dict[FetcherThreadKey, Mapping[PartitionKey, Assigned]] = {}
        """Of each thread what was assigned to it, once it has all of that."""

    def apply(self, wanted: Assignment) -> None:
        """Assign `wanted`; partitions that another thread still holds follow at a later call."""
        self._bury()
        for key in self._threads.keys() - wanted.keys():
            thread = self._threads.pop(key)
            self._given.pop(key, None)
            thread.assignment = {}
            thread.stop()
            self._leaving.append(thread)
        for key, partitions in wanted.items():
            self._shrink(key, partitions)
        for key, partitions in wanted.items():
            self._give(key, partitions)
        waiting = (key for key in self._not_before.keys() & wanted.keys() if key not in self._threads)
        self.dead = Counter(key.mirror for key in waiting)

    def _bury(self) -> None:
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        for key, thread in list(self._threads.items()):
            if not thread.is_alive():
                log.error("lane ended, restarting", extra={"lane": thread.name, "why": repr(thread.died)})
                self._totals.thread_died(key.mirror)
                self._not_before[key] = self._clock.monotonic() + RESTART_SECONDS
                del self._threads[key]

    def _shrink(self, key: FetcherThreadKey, partitions: Mapping[PartitionKey, Assigned]) -> None:
        thread = self._threads.get(key)
        if thread is None or self._given.get(key) is partitions:
            return
        if not thread.assignment.keys() <= partitions.keys():
            thread.assignment = {copied: each for copied, each in thread.assignment.items() if copied in partitions}

    def _give(self, key: FetcherThreadKey, partitions: Mapping[PartitionKey, Assigned]) -> None:
        thread = self._threads.get(key)
        if thread is not None and self._given.get(key) is partitions:
            return
        others = [each for at, each in (*self._threads.items(), *((None, each) for each in self._leaving)) if at != key]
        free = {copied: each for copied, each in partitions.items() if not any(o.may_hold(copied) for o in others)}
        if thread is None:
            if not free or self._clock.monotonic() < self._not_before.get(key, 0.0):
                return
            self._not_before.pop(key, None)
            thread = self._threads[key] = self._make(key, next(iter(free.values())).spec)
            thread.assignment = free
            thread.start()
        elif thread.assignment != free:
            thread.assignment = free
        if len(free) == len(partitions):
            self._given[key] = partitions

    def reports(self) -> Mapping[PartitionKey, Report]:
        """The reports of all fetcher threads; the same object as before, if nothing was reported since."""
        each = [thread.reports for thread in self._threads.values()]
        if len(each) != len(self._parts) or any(new is not old for new, old in zip(each, self._parts, strict=True)):
            self._parts, self._reports = each, {copied: found for some in each for copied, found in some.items()}
        return self._reports

    def stale(self, mirror: str) -> bool:
        """Whether a fetcher thread of `mirror` has seen a leader move."""
        return any(thread.stale_leaders for key, thread in self._threads.items() if key.mirror == mirror)

    def stop(self, seconds: float) -> None:
        """Stop all fetcher threads; after half the time, also interrupt what they wait for."""
        by = self._clock.deadline(seconds)
        threads = [*self._threads.values(), *self._leaving]
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join(max(0.0, by.left(self._clock.monotonic()) - seconds / 2))
        for thread in threads:
            if thread.is_alive():
                thread.stop(at_once=True)
        for thread in threads:
            thread.join(by.left(self._clock.monotonic()))
