"""The source side of a thread that copies from all brokers of a source: one fetch in flight to each of them."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.fetcher.engines.batches.reading import SourceReading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import BrokerId
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.throttle import Throttle
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 0.5


class SourceReadings:
    """Owned by the fetcher thread. A transactional id has partitions of several brokers, and one thread."""

    def __init__(self, source: Router, clock: Clock, throttle: Throttle) -> None:
        self._source = source
        self._clock = clock
        self._throttle = throttle
        self._readings: dict[BrokerId, SourceReading] = {}
        self._posted: list[SourceReading] = []
        self._looked_at = float("-inf")
        self._without_leader = False

    def post(self, partitions: Sequence[TransactionPartition], *, hurry: bool) -> bool:
        """Send a fetch to each broker that leads some of `partitions`; False: there was nothing to fetch.

        `hurry`: other work waits. One broker without news does not hold up another that has some.
        """
        led = self._by_leader(partitions)
        hurry = hurry or len(led) > 1
        self._posted = []
        for broker, some in led.items():
            if broker not in self._readings:
                self._readings[broker] = SourceReading(self._source, broker, self._clock, self._throttle)
            reading = self._readings[broker]
            if reading.post(some, hurry=hurry):
                self._posted.append(reading)
        return bool(self._posted)

    def ready(self) -> bool:
        """Whether any answer has arrived."""
        return any(each.ready() for each in self._posted)

    def take(self) -> None:
        """Take the answers to all posted fetches."""
        for each in self._posted:
            each.take()
        self._posted = []

    @property
    def stale(self) -> bool:
        """Whether any broker does not answer, or has lost its partitions."""
        return any(each.stale for each in self._readings.values())

    def _by_leader(self, partitions: Sequence[TransactionPartition]) -> Mapping[BrokerId, list[TransactionPartition]]:
        self._look_for_leaders(partitions)
        found: defaultdict[BrokerId, list[TransactionPartition]] = defaultdict(list)
        self._without_leader = False
        for each in partitions:
            try:
                found[self._source.leader(each.there)].append(each)
            except TanistError as why:
                self._without_leader = True
                each.source.refused(why, self._clock.monotonic(), self._clock.now())
        return found

    def _look_for_leaders(self, partitions: Sequence[TransactionPartition]) -> None:
        """Ask who leads, where it is not known, or where a leader has moved."""
        now = self._clock.monotonic()
        known = self._source.topics()
        unknown = {each.there.topic for each in partitions if each.there.topic not in known}
        moved = self._without_leader or any(each.stale for each in self._readings.values())
        if not unknown and (not moved or now - self._looked_at < LOOK_AGAIN_SECONDS):
            return
        self._looked_at = now
        topics = {each.there.topic for each in partitions} if moved else unknown
        try:
            self._source.refresh(sorted(topics), self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("source does not tell its leaders", extra={"reason": why.reason})
