"""Where logs begin and end, and which part of a mirror partition the mirror has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tanist.domain.errors import Diverged
from tanist.domain.names import DestinationOffset, EpochMs

_O = TypeVar("_O", bound=int)


class Span(NamedTuple, Generic[_O]):
    """Offsets of one log: from `start` up to, not including, `end`."""

    start: _O
    end: _O


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Log start offset, last stable offset and high watermark, each not above the next.

    `observed_at`: ms since 1970, by the clock of whoever asked; 0: not noted.
    """

    start: int
    last_stable: int
    high_watermark: int
    observed_at: EpochMs = EpochMs(0)  # noqa: RUF009


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
