"""How long records are on their way into a copy, counted in buckets (KIP-656: replication latency)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the buckets; one more holds what took longer."""


@dataclass(frozen=True, slots=True)
class Latency:
    """`counts`: records by bucket. `total_ms`: the sum of their times."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    total_ms: int = 0

    @property
    def records(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def counted(self, ms: int, records: int) -> Latency:
        """With `records` more that took `ms`. A clock that is behind makes none negative."""
        took = max(0, ms)
        at = bisect_left(BOUNDS_MS, took)
        counts = (*self.counts[:at], self.counts[at] + records, *self.counts[at + 1 :])
        return Latency(counts, self.total_ms + took * records)

    @property
    def at_most(self) -> tuple[int, ...]:
        """Records that took at most each of `BOUNDS_MS`; last, all of them."""
        return tuple(accumulate(self.counts))

    @staticmethod
    def of_all(each: Iterable[Latency]) -> Latency:
        """Several together."""
        found = tuple(each)
        counts = tuple(map(sum, zip(*(one.counts for one in found), strict=True)))
        return Latency(counts, sum(one.total_ms for one in found)) if found else Latency()
