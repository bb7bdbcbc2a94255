"""The lanes of this process: started, given their partitions, restarted, stopped."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import Assigned, Assignment, Copied, LaneKey, Report
    from tanist.fetcher.lane import Lane
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 1.0


class Lanes:
    """Owned by the coordination thread.

    No partition is ever in two lanes: it is given to one only after the other has shown that it let go, because
    within a process both would hold the same lease.
    """

    def __init__(self, make: Callable[[LaneKey, MirrorSpec], Lane], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lanes: dict[LaneKey, Lane] = {}
        self._leaving: list[Lane] = []
        self._not_before: dict[LaneKey, float] = {}

    def apply(self, wanted: Assignment) -> None:
        """Bring the lanes to `wanted`; partitions that another lane still holds follow at a later call."""
        self._bury()
        for key in self._lanes.keys() - wanted.keys():
            lane = self._lanes.pop(key)
            lane.assignment = {}
            lane.stop()
            self._leaving.append(lane)
        for key, partitions in wanted.items():
            self._shrink(key, partitions)
        for key, partitions in wanted.items():
            self._give(key, partitions)

    def _bury(self) -> None:
        self._leaving = [lane for lane in self._leaving if lane.is_alive()]
        for key, lane in list(self._lanes.items()):
            if not lane.is_alive():
                log.error("lane ended, restarting", extra={"lane": lane.name, "why": repr(lane.died)})
                self._not_before[key] = self._clock.monotonic() + RESTART_SECONDS
                del self._lanes[key]

    def _shrink(self, key: LaneKey, partitions: Mapping[Copied, Assigned]) -> None:
        lane = self._lanes.get(key)
        if lane is not None and not lane.assignment.keys() <= partitions.keys():
            lane.assignment = {copied: each for copied, each in lane.assignment.items() if copied in partitions}

    def _give(self, key: LaneKey, partitions: Mapping[Copied, Assigned]) -> None:
        free = {copied: each for copied, each in partitions.items() if not self._held_elsewhere(key, copied)}
        lane = self._lanes.get(key)
        if lane is None:
            if not free or self._clock.monotonic() < self._not_before.get(key, 0.0):
                return
            lane = self._lanes[key] = self._make(key, next(iter(free.values())).spec)
            lane.assignment = free
            lane.start()
        elif lane.assignment != free:
            lane.assignment = free

    def _held_elsewhere(self, key: LaneKey, copied: Copied) -> bool:
        others = [lane for at, lane in self._lanes.items() if at != key]
        return any(lane.may_hold(copied) for lane in [*others, *self._leaving])

    def reports(self) -> dict[Copied, Report]:
        """What all lanes know now."""
        found: dict[Copied, Report] = {}
        for lane in self._lanes.values():
            found |= lane.reports
        return found

    def stale(self, mirror: str) -> bool:
        """Whether a lane of `mirror` has seen a leader move."""
        return any(lane.stale_leaders for key, lane in self._lanes.items() if key.mirror == mirror)

    def stop(self, seconds: float) -> None:
        """End all lanes: politely, then, when half the time is over, whatever they wait for."""
        by = self._clock.deadline(seconds)
        lanes = [*self._lanes.values(), *self._leaving]
        for lane in lanes:
            lane.stop()
        for lane in lanes:
            lane.join(max(0.0, by.left(self._clock.monotonic()) - seconds / 2))
        for lane in lanes:
            if lane.is_alive():
                lane.stop(at_once=True)
        for lane in lanes:
            lane.join(by.left(self._clock.monotonic()))
