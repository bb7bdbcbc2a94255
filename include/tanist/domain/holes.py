"""Offsets at which a source's log has no record any more, because its cleaner removed it: what the copy holds there."""

from __future__ import annotations

from enum import StrEnum


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
