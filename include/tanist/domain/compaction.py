"""Compacted logs: offsets that the cleaner of the source emptied, and up to where a mirror topic has them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tanist.domain.names import EpochMs, SourceOffset


class Holes(StrEnum):
    """How the offsets of removed records are occupied in a mirror partition, so that both logs agree on all others."""

    COPIES = "copies"
    """By copies of the next record that is left. In topics that are not compacted (any more): by gap markers."""
    MARKERS = "markers"
    """By gap markers, which no reader sees; some 30,000 per second."""
    REFUSE = "refuse"
    """The partition fails with COMPACTION_HOLE."""


def is_compacted(cleanup_policy: str) -> bool:
    """Whether a `cleanup.policy` contains `compact`."""
    return "compact" in {each.strip() for each in cleanup_policy.split(",")}


def holes_of(chosen: Holes, *, compacted: bool) -> Holes:
    """How the holes of a topic are occupied. `chosen` for its mirror; `compacted` at the source.

    A copy of a record is removed by the cleaner of a compacted mirror topic. In others it would stay.
    """
    return Holes.MARKERS if chosen is Holes.COPIES and not compacted else chosen


DELETE_RETENTION: Final = "delete.retention.ms"
DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000


class EndSeen(NamedTuple):
    """The last stable offset of the source at a time, ms since 1970."""

    end: SourceOffset
    at: EpochMs


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """`at`: ms since 1970; None: unknown. As `Replica.lastCaughtUpTimeMs` of a broker's follower.

    Everything that the source's log held then is copied, or copying began then with an empty copy. So what is copied
    from now on was written after `at`, or was cleaned for the first time after it.
    """

    at: EpochMs | None = None
    awaited: EndSeen | None = None
    """An end that the copy has not reached. Once it has, it was caught up with the source of that time."""

    def seen(self, copied: SourceOffset, last_stable: SourceOffset, now: EpochMs) -> CaughtUp:
        """The source has served its `last_stable` offset `now`; everything below `copied` is at the destination."""
        if copied >= last_stable:
            return CaughtUp(now)
        if self.awaited is None:
            return replace(self, awaited=EndSeen(last_stable, now))
        if copied >= self.awaited.end:
            return CaughtUp(self.awaited.at, EndSeen(last_stable, now))
        return self

    def too_late(self, now: EpochMs, kept_ms: int) -> bool:
        """Whether tombstones that the source keeps for `kept_ms` may be gone from what is read `now`."""
        return self.at is None or now - self.at >= kept_ms
