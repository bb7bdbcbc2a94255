"""What one mirror stores of its partitions in `__mirror_offsets`: offset maps, and tombstones that may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.losses import TombstonesMissed
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.records import OffsetRangeWritten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.caught_up import CaughtUp
    from tanist.domain.names import EpochMs, SourceOffset, TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Deadline
    from tanist.ports.state import StateStore


class OffsetRuns:
    """Ranges are only added. Every read is to the end of the topic: an outdated map could hide a shift."""

    def __init__(self, spec: MirrorSpec, store: StateStore, claims: Claims) -> None:
        self.spec = spec
        self._store = store
        self._claims = claims

    def read(self, at: TopicPartition, by: Deadline) -> OffsetMap:
        """The current map of a partition, read after the call."""
        return self._map(self._store.catch_up(by), at)

    def write(self, of: Assigned, runs: Iterable[OffsetRange], why: str, by: Deadline) -> OffsetMap:
        """Add `runs` and return the map that contains them; only then may their first records be sent.

        Raises:
            NotOurs: the lease has ended. A late range of a former owner would shift what the next owner has copied.
        """
        at = of.partition
        self._claims.must_hold(of)
        records = [
            OffsetRangeWritten(
                mirror=self.spec.mirror,
                mirror_id=self.spec.mirror_id,
                partition=at,
                source=run.source,
                destination=run.destination,
                why=why,
            )
            for run in runs
        ]
        return self._map(self._store.append(records, by), at)

    def tombstones_missed(
        self, of: Assigned, start: SourceOffset, caught_up: CaughtUp, now: EpochMs, by: Deadline
    ) -> None:
        """Store that tombstones from `start` on may be missing in the copy; an earlier record of it stays.

        Raises as `write`.
        """
        self._claims.must_hold(of)
        if of.partition not in self._store.catch_up(by).tombstones_missed(self.spec):
            record = TombstonesMissed(
                mirror=self.spec.mirror,
                mirror_id=self.spec.mirror_id,
                partition=of.partition,
                start=start,
                caught_up_at=caught_up.at,
                read_at=now,
                kept_ms=of.tombstones_kept_ms,
            )
            self._store.append([record], by)

    def _map(self, view: StateView, at: TopicPartition) -> OffsetMap:
        found = (each for each in view.offset_runs(self.spec) if each.partition == at)
        return OffsetMap.of(OffsetRange(each.source, each.destination) for each in found)
