"""The ends of a mirror partition, and which part of it the mirror has written."""

from __future__ import annotations

from typing import NamedTuple

from tanist.domain.errors import Diverged
from tanist.domain.names import DestinationOffset


class CopyEnds(NamedTuple):
    """Of the destination: log start, high watermark and the true end of the leader's log."""

    start: DestinationOffset
    high_watermark: DestinationOffset
    end: DestinationOffset


def above_copy_start(ends: CopyEnds, copy_start: DestinationOffset) -> CopyEnds:
    """`ends` of the part of the log that the mirror has written: what lies below `copy_start` was there before it.

    Raises:
        Diverged: the log ends before `copy_start`.
    """
    if ends.end < copy_start:
        raise Diverged(
            f"the mirror partition ends at {ends.end}, but had records up to {copy_start} when it was added: its "
            "cluster has lost records"
        )
    return ends._replace(start=DestinationOffset(max(ends.start, copy_start)))
