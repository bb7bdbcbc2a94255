"""How far a worker is behind, mirror by mirror: one pass over the reports of its fetcher threads. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from math import nan
from typing import TYPE_CHECKING, Final

from tanist.fetcher.assignment import NO_NEWS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.fetcher.assignment import PartitionKey, Report

MOST_NAMED: Final = 100
"""So many partitions are named at most, those that are furthest behind: a series each would be too many."""


@dataclass(slots=True)
class MirrorNumbers:
    """Of the partitions of one mirror that this worker is to copy.

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
    """Offsets of the lag whose partition has copied nothing here: the average of the mirror counts."""

    @property
    def size(self) -> float:
        """The lag in bytes, by the average of what was copied; NaN: nothing was copied, so it is not known."""
        if not self.unmeasured:
            return self.lag_bytes
        return self.lag_bytes + self.unmeasured * self.bytes / self.records if self.records else nan

    def add(self, report: Report, now: EpochMs) -> None:
        """One more partition."""
        self.troubled += report.error is not None
        self.records += report.records
        self.bytes += report.bytes
        behind = lag(report)
        if behind is None or _undated(report, behind):
            self.unknown += 1
        if not behind:
            return
        self.lag += behind
        self.largest = max(self.largest, behind)
        if report.uncopied_at is not None:
            self.ms = max(self.ms, now - report.uncopied_at)
        if report.records:
            self.lag_bytes += behind * report.bytes / report.records
        else:
            self.unmeasured += behind


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


def numbers(
    assigned: Collection[PartitionKey], reports: Mapping[PartitionKey, Report], now: EpochMs
) -> dict[MirrorName, MirrorNumbers]:
    """By mirror. `assigned`: what this worker is to copy; a partition that no thread reports is not known."""
    found: dict[MirrorName, MirrorNumbers] = {}
    for key in assigned:
        of = found.get(key.mirror)
        if of is None:
            of = found[key.mirror] = MirrorNumbers()
        of.add(reports.get(key, NO_NEWS), now)
    return found


def furthest(reports: Iterable[tuple[PartitionKey, Report]], most: int = MOST_NAMED) -> list[tuple[PartitionKey, int]]:
    """The partitions that lag, with their lag in offsets, the largest first; at most `most`."""
    behind = ((key, found) for key, report in reports if (found := lag(report)))
    return nlargest(most, behind, key=lambda each: (each[1], each[0]))
