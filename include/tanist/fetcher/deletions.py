"""Topics that were deleted at the source: seen by all of its brokers, several times in a row."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.deletion import Absence
from tanist.domain.errors import Stopped, TanistError
from tanist.kafka.wire.absence import missing_topics

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock, Deadline

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS: Final = 2.0


class SourceDeletions:
    """Of one mirror's source. Owned by the coordination thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._absences: dict[str, Absence] = {}
        self._deleted: dict[str, Absence] = {}
        self._looked_at = float("-inf")

    def looks(self, topic: str) -> int:
        """How many looks have shown that `topic` was deleted; 0: it was not, as far as is known."""
        found = self._deleted.get(topic)
        return found.looks if found is not None else 0

    def forget(self, topics: Collection[str]) -> None:
        """What was seen so far was about other topics of these names."""
        for name in topics:
            self._absences.pop(name, None)
            self._deleted.pop(name, None)

    def look(self, router: Router, missing: Collection[str], by: Deadline) -> None:
        """Take another look. `missing`: the topics of which one broker has just said that they do not exist."""
        for known in (self._absences, self._deleted):
            for name in known.keys() - set(missing):
                del known[name]
        unsure = set(missing) - self._deleted.keys()
        now = self._clock.monotonic()
        if not unsure or now - self._looked_at < LOOK_EVERY_SECONDS:
            return
        self._looked_at = now
        try:
            gone = missing_topics(router, unsure, by)
        except Stopped:
            raise
        except TanistError as why:
            log.info("source does not tell whether topics were deleted", extra={"reason": why.reason})
            return
        for name in unsure - gone:
            self._absences.pop(name, None)
        for name in gone:
            before = self._absences.get(name)
            found = self._absences[name] = before.again() if before is not None else Absence(now)
            if found.is_deleted(now):
                self._deleted[name] = self._absences.pop(name)
