"""How far a worker is behind, mirror by mirror: one pass over the reports of its fetcher threads. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from math import nan
from typing import TYPE_CHECKING, Final

from tanist.domain.lag import KnownLag, lag_bytes, lag_ms
from tanist.fetcher.assignment import NO_NEWS, PartitionKey
from tanist.fetcher.planning import is_copied

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import Report

MOST_NAMED: Final = 100
"""So many partitions are named at most, those that are furthest behind: a series each would be too many."""


@dataclass(slots=True)
class MirrorNumbers:
    """Of the partitions of one mirror that this worker is to copy; where it looks after it, also of what nobody copies.

    `lag`: in offsets, of those of which it is known; `largest`: of one partition. `unknown`: partitions of which it is
    not known how far they are behind. `ms`: how old the first record that is not copied is at most. `troubled`: that
    cannot be copied now. `records` and `bytes`: copied since each partition was assigned, for an average.
    """

    lag: int = 0
    largest: int = 0
    unknown: int = 0
    ms: int = 0
    troubled: int = 0
    records: int = 0
    bytes: int = 0
    lag_bytes: float = 0.0
    unmeasured: int = 0
    """Offsets of the lag whose partition has no average: that of the mirror counts."""

    @property
    def size(self) -> float:
        """The lag in bytes, by the average of what was copied; NaN: nothing was copied, so it is not known."""
        if not self.unmeasured:
            return self.lag_bytes
        return self.lag_bytes + self.unmeasured * self.bytes / self.records if self.records else nan

    def add(self, report: Report, now: EpochMs) -> None:
        """One more partition that is to be copied."""
        self.troubled += report.error is not None
        self.records += report.records
        self.bytes += report.bytes
        behind = lag(report)
        if behind is None or _undated(report, behind):
            self.unknown += 1
        ms = None if report.uncopied_at is None else now - report.uncopied_at
        self._lags(behind or 0, ms, behind * report.bytes / report.records if behind and report.records else None)

    def add_idle(self, known: KnownLag, now: EpochMs) -> None:
        """One more partition that nobody copies now."""
        behind, ms = known.offsets, lag_ms(known.source, now)
        self.unknown += behind is None or (behind > 0 and ms is None)
        self._lags(behind or 0, ms, lag_bytes(behind or 0, known.source))

    def _lags(self, behind: int, ms: int | None, size: float | None) -> None:
        if not behind:
            return
        self.lag += behind
        self.largest = max(self.largest, behind)
        self.ms = max(self.ms, ms or 0)
        if size is None:
            self.unmeasured += behind
        else:
            self.lag_bytes += size


def lag(report: Report) -> int | None:
    """Offsets of the source that are not copied; None: not known."""
    if report.source_high_watermark is None or report.position is None:
        return None
    return max(0, report.source_high_watermark - report.position)


def _undated(report: Report, behind: int) -> bool:
    """Whether it lags, and nobody knows since when. What only an open transaction has written has no age yet."""
    stable, copied = report.source_last_stable, report.position
    waits = stable is not None and copied is not None and copied >= stable
    return behind > 0 and report.uncopied_at is None and not waits


def idle(
    view: StateView, lags: Mapping[MirrorName, Mapping[MirrorPartition, KnownLag]]
) -> dict[PartitionKey, KnownLag]:
    """The partitions of these mirrors that no worker has a thread copy: PAUSED, FAILED, STOPPED or not taken in yet.

    `lags`: as they were last seen of partitions in any state; of others nobody knows.
    """
    every = {(each.mirror, each.partition): each for each in view.all_observed()}
    return {
        PartitionKey(mirror, at): known.get(at, KnownLag())
        for mirror, known in lags.items()
        for topic in view.mirrored(mirror)
        for at in topic.all_partitions()
        if not is_copied(topic, every.get((mirror, at)))
    }


def numbers(
    assigned: Collection[PartitionKey],
    reports: Mapping[PartitionKey, Report],
    uncopied: Mapping[PartitionKey, KnownLag],
    now: EpochMs,
) -> dict[MirrorName, MirrorNumbers]:
    """By mirror. `assigned`: what this worker is to copy; a partition that no thread reports is not known.

    `uncopied`: what nobody copies, as `idle` has it.
    """
    found: dict[MirrorName, MirrorNumbers] = {}
    for key in assigned:
        of = found.get(key.mirror)
        if of is None:
            of = found[key.mirror] = MirrorNumbers()
        of.add(reports.get(key, NO_NEWS), now)
    for key, known in uncopied.items():
        if key not in assigned:
            found.setdefault(key.mirror, MirrorNumbers()).add_idle(known, now)
    return found


def furthest(
    reports: Iterable[tuple[PartitionKey, Report]],
    uncopied: Iterable[tuple[PartitionKey, KnownLag]] = (),
    most: int = MOST_NAMED,
) -> list[tuple[PartitionKey, int]]:
    """The partitions that lag, with their lag in offsets, the largest first; at most `most`."""
    behind = {key: found for key, known in uncopied if (found := known.offsets)}
    behind |= {key: found for key, report in reports if (found := lag(report))}
    return nlargest(most, behind.items(), key=lambda each: (each[1], each[0]))
