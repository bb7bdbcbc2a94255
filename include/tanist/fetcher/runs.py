"""What a worker stores of partitions in `__mirror_offsets`: offset maps, losses, tombstones that may be missing."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.fake_group import published
from tanist.domain.losses import (
    MOST_RANGES,
    LostOffsets,
    LostRange,
    OnLoss,
    TombstonesMissed,
    UncopiedRecordsDeleted,
    with_range,
)
from tanist.domain.names import topic_id_text
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OffsetRangeWritten
from tanist.domain.state_record import Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from tanist.domain.compaction import CaughtUp
    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import EpochMs, MirrorPartition, SourceOffset
    from tanist.domain.records import MirrorSpec
    from tanist.domain.recovery import LostSpan
    from tanist.domain.state_view import StateView, StoredProgress
    from tanist.domain.thinning import ThinningStep
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.claims import Claims
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.ports.clock import Deadline
    from tanist.ports.state import StateStore


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What both state topics say of the partitions of a mirror. `maps`: of those that have ranges."""

    maps: Mapping[MirrorPartition, OffsetMap]
    state: StateView

    def offset_map(self, at: MirrorPartition) -> OffsetMap:
        return self.maps.get(at, OffsetMap())

    def progress(self, of: Assigned) -> StoredProgress:
        """How far it was copied, as workers have stored it."""
        return self.state.progress(of.spec, of.state_partition, of.partition)


class OffsetRuns:
    """Ranges are only added. Every read is to the end of the topic: an outdated map could hide a shift."""

    def __init__(self, spec: MirrorSpec, store: StateStore, claims: Claims) -> None:
        self.spec = spec
        self._store = store
        self._claims = claims

    def on_record(self, state: Callable[[Deadline], StateView], by: Deadline) -> OnRecord:
        """What is on record now of all partitions, read after the call. `state`: reads the state topic again."""
        ranges: defaultdict[MirrorPartition, list[OffsetRange]] = defaultdict(list)
        for each in self._store.catch_up(by).offset_runs(self.spec):
            ranges[each.partition].append(OffsetRange(each.source, each.destination))
        return OnRecord({at: OffsetMap.of(some) for at, some in ranges.items()}, state(by))

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

    def published(self, at: MirrorPartition, by: Deadline) -> tuple[OffsetRange, ...]:
        """What is published of the map of a mapped partition, read after the call: what the last one has is exact."""
        policy = OffsetPolicy.of(self._store.catch_up(by), self.spec)
        return policy.map_of(at).runs

    def publish(self, positions: Mapping[MirrorPartition, CopiedPosition], by: Deadline) -> None:
        """Publish committed ranges of mapped partitions. They stay true, so a late or repeated one does no harm."""
        spec = self.spec
        records = [published(spec.mirror, at, each, spec.mirror_id) for at, each in positions.items()]
        if records:
            self._store.append(records, by)

    def pieces(self) -> StateView:
        """What was on record a moment ago; nothing is read for it."""
        return self._store.view()

    def thin(self, of: Assigned, step: ThinningStep, by: Deadline) -> None:
        """What is to be written is acknowledged before anything is deleted: ended in between, both are true.

        Raises as `write`.
        """
        self._claims.must_hold(of)
        if step.written:
            self._store.append(step.written, by)
        if step.deleted:
            self._claims.must_hold(of)
            self._store.append([Tombstone(key) for key in step.deleted], by)

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

    def _map(self, view: StateView, at: MirrorPartition) -> OffsetMap:
        found = (each for each in view.offset_runs(self.spec) if each.partition == at)
        return OffsetMap.of(OffsetRange(each.source, each.destination) for each in found)


log = logging.getLogger(__name__)


class LossRecords:
    """Owned by the fetcher thread."""

    def __init__(self, tools: FetcherThreadTools) -> None:
        self._store = tools.losses
        self._claims = tools.claims
        self._clock = tools.clock

    def record(self, of: Assigned, topic_id: UUID | None, lost: LostSpan, by: Deadline) -> LostRange:
        """Put `lost` on record in the state topic, before anything is appended behind it; returns the range there.

        That range is longer than `lost` if a part of it was found before. `topic_id`: of the mirror topic.

        Raises:
            UncopiedRecordsDeleted: the mirror does not continue after a loss.
            NotOurs: the lease has ended. TanistError: the state topic cannot be written.
        """
        at = of.partition
        new = LostRange(lost.start, lost.until, self._clock.now())
        new = self._append(of, topic_id_text(topic_id) if topic_id else "", new, by)
        if of.spec.on_loss is OnLoss.FAIL:
            command = f"tanist mirrors alter {of.spec.mirror} --destination {of.spec.destination} --on-loss continue"
            raise UncopiedRecordsDeleted(
                f"the source deleted offsets {new} of {at}, {new.offsets} in all, before they were copied; "
                f"to continue without them run `{command}`"
            )
        return new

    def _append(self, of: Assigned, topic_id: str, new: LostRange, by: Deadline) -> LostRange:
        if self._store is None:
            return new
        self._claims.must_hold(of)
        spec = of.spec
        held = self._store.catch_up(by).lost(spec.mirror, of.partition, topic_id)
        ranges = with_range(held.ranges if held else (), new)
        (whole,) = (each for each in ranges if each.start <= new.start < each.until)
        if held is not None and ranges == held.ranges:
            return whole
        earlier = (held.earlier if held else 0) + sum(each.offsets for each in ranges[:-MOST_RANGES])
        record = LostOffsets(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            partition=of.partition,
            ranges=ranges[-MOST_RANGES:],
            earlier=earlier,
            topic_id=topic_id,
            at=self._clock.now(),
        )
        log.warning(
            "the source deleted records before they were copied",
            extra={"partition": str(of.partition), "lost": str(whole)},
        )
        self._store.append([record], by)
        return whole
