"""Where the records end that a mirror has copied: its last data batch, searched from the end of the log backwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError, TimedOut
from tanist.domain.names import DestinationOffset, TopicPartition
from tanist.kafka.adapters.keeping import DATA_EPOCH
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire.leaders import value
from tanist.kafka.wire.requests import fetch, readable_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import ProducerId
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_COMMITTED: Final = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
_FIRST_WINDOW: Final = 64
_WIDER: Final = 16
_BYTES: Final = 1 << 16
_PAUSE_SECONDS: Final = 0.02


def copied_ends(
    router: Router,
    data_ids: Mapping[TopicPartition, ProducerId],
    by: Deadline,
    begun: Mapping[TopicPartition, DestinationOffset],
) -> dict[TopicPartition, DestinationOffset | TanistError]:
    """The offset behind the last batch of each data id below the committed end; the log start if there is none.

    `begun`: where copying began, which stands for the log start. Not what a producer fence repeats: that has a higher
    producer epoch.
    """
    found: dict[TopicPartition, DestinationOffset | TanistError] = {}
    left: dict[TopicPartition, _Search] = {}
    for at, ends in readable_ends(router, data_ids, by).items():
        if isinstance(ends, TanistError):
            found[at] = ends
        else:
            left[at] = _Search.of(data_ids[at], max(ends.start, begun.get(at, 0)), ends.high_watermark)
    while left:
        found |= {at: end for at, search in left.items() if (end := search.end()) is not None}
        left = {at: search for at, search in left.items() if at not in found}
        if not by.left(time.monotonic()):
            return found | {at: TimedOut(f"{at}: its last records were not found in time") for at in left}
        positions = {at: search.position for at, search in left.items()}
        moved = False
        for at, fetched in fetch(router, positions, by, _COMMITTED, _BYTES).items() if left else ():
            try:
                moved |= left[at].read(value(fetched).records)
            except Stopped:
                raise
            except TanistError as unreadable:
                found[at] = unreadable
        left = {at: search for at, search in left.items() if at not in found}
        if left and not moved:
            router.pause(_PAUSE_SECONDS, by)  # a large batch comes whole from one partition of each answer
    return found


@dataclass(slots=True)
class _Search:
    """One partition. Reads [`begin`, `until`) from `position` on; `last`: behind the last data batch in it."""

    data_id: ProducerId
    start: int
    begin: int
    until: int
    position: int
    window: int = _FIRST_WINDOW
    last: int | None = None

    @classmethod
    def of(cls, data_id: ProducerId, start: int, end: int) -> _Search:
        begin = max(start, end - _FIRST_WINDOW)
        return cls(data_id, start, begin, end, begin)

    def end(self) -> DestinationOffset | None:
        """The answer; None: there is more to read."""
        if self.position < self.until:
            return None
        if self.last is not None or self.begin <= self.start:
            return DestinationOffset(self.start if self.last is None else self.last)
        self.window *= _WIDER
        self.until, self.begin = self.begin, max(self.start, self.begin - self.window)
        self.position = self.begin
        return None

    def read(self, records: memoryview) -> bool:
        """Take in what was fetched at `position`; whether that was anything."""
        before = self.position
        for header, _ in split(records):
            if header.producer_id == self.data_id and header.producer_epoch < DATA_EPOCH and not header.is_control:
                self.last = header.next_offset
            self.position = max(self.position, header.next_offset)
        return self.position > before
