"""Where the logs of the source really end: fetches tell only what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.names import SourceOffset
from tanist.kafka.wire.requests import End, list_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Clock

TRUE_ENDS_SECONDS: Final = 3.0
"""How often the leader is asked for them; with the answer and what comes before it less than `LOG_END_AGE_MS`."""
ANSWER_SECONDS: Final = 1.0
ALL_SECONDS: Final = 14.0
"""How often the leader is asked for all of them, also for logs that do not move."""


class TrueEnds:
    """Owned by the fetcher thread. The reserve of an unplanned failover begins there."""

    def __init__(self, source: Router, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._asked_at = self._all_at = float("-inf")

    def look(self, partitions: Sequence[BatchPartition], *, whole: bool) -> None:
        """Ask from time to time. If nothing is answered, the last answer stays. `whole`: these are all partitions."""
        now = self._clock.monotonic()
        if now - self._asked_at < TRUE_ENDS_SECONDS:
            return
        everything = whole and now - self._all_at >= ALL_SECONDS
        self._asked_at, self._all_at = now, now if everything else self._all_at
        known = {each.there: each.source for each in partitions if each.source.error is None}
        asked = {at: source for at, source in known.items() if everything or source.end != source.asked_end}
        if not asked:
            return
        try:
            by = self._clock.deadline(ANSWER_SECONDS)
            found = list_offsets(self._source, dict.fromkeys(asked, End.LOG_END), by)
        except Stopped:
            raise
        except TanistError:
            return
        for at, end in found.items():
            if not isinstance(end, TanistError):
                asked[at].asked_end, asked[at].log_end = asked[at].end, SourceOffset(end)
