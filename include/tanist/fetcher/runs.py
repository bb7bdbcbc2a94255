"""The offset maps of one mirror, in `__mirror_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.records import OffsetRangeWritten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Deadline
    from tanist.ports.state import StateStore


class OffsetRuns:
    """Runs are only ever added. Reading is always to the end: a map that is a moment old could hide a shift."""

    def __init__(self, spec: MirrorSpec, store: StateStore, claims: Claims) -> None:
        self.spec = spec
        self._store = store
        self._claims = claims

    def read(self, at: TopicPartition, by: Deadline) -> OffsetMap:
        """The map of a partition as it is now, read after the call."""
        return self._map(self._store.catch_up(by), at)

    def write(self, of: Assigned, runs: Iterable[OffsetRange], why: str, by: Deadline) -> OffsetMap:
        """Add `runs` and return the map that has them; only then may the record they speak of be sent.

        Raises:
            NotOurs: the lease is over. A run that a former owner writes late would move what its heir has copied.
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

    def _map(self, view: StateView, at: TopicPartition) -> OffsetMap:
        found = (each for each in view.offset_runs(self.spec) if each.partition == at)
        return OffsetMap.of(OffsetRange(each.source, each.destination) for each in found)
