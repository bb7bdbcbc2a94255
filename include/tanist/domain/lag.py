"""How far a copy is behind its source, in the source's offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Diverged, ForeignWrite, SourceTruncated
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, SourceOffset, TopicPartition
    from tanist.domain.offset_map import OffsetMap
    from tanist.domain.records import PartitionObserved
    from tanist.domain.states import DesiredState

_NO_COPY: Final = frozenset({ForeignWrite.name, Diverged.name, SourceTruncated.name})


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The source's high watermark, and when it was seen there; `rate`: offsets a second that it grew by till then.

    `log_start`: where the source's log began then; None: nobody has written that down.
    """

    high_watermark: SourceOffset
    at: EpochMs
    rate: float = 0.0
    log_start: SourceOffset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One line of `tanist mirrors describe`; None where unknown. `error`: why an offset is."""

    mirror: MirrorName
    partition: TopicPartition
    desired: DesiredState
    state: MirrorState
    source: KnownEnd | None
    destination_end: DestinationOffset | None
    map: OffsetMap
    observed: PartitionObserved | None
    source_error: str | None = None
    destination_error: str | None = None

    @property
    def lag(self) -> int | None:
        """Offsets of the source that are not in the copy yet; None, too, of a log that is no copy any more."""
        if self.state is MirrorState.FAILED and self.observed is not None and self.observed.error in _NO_COPY:
            return None
        return lag(self.source, self.destination_end, self.map)

    @property
    def lag_ms(self) -> int | None:
        """0 with nothing to copy; else unknown, because the records that are missing have not been read."""
        return 0 if self.lag == 0 else None

    @property
    def mode(self) -> str:
        """`identical`, or by how many offsets the copy is ahead at its end."""
        return mode(self.destination_end, self.map)


def lag(source: KnownEnd | None, destination_end: DestinationOffset | None, offsets: OffsetMap) -> int | None:
    """Offsets behind, never negative: the copy may have been read after the source."""
    if source is None or destination_end is None:
        return None
    return max(0, source.high_watermark - offsets.origin(destination_end))


def mode(destination_end: DestinationOffset | None, offsets: OffsetMap) -> str:
    """`identical` or `mapped(+3)`, at the end of the copy (at the last run where that is unknown)."""
    if not offsets.runs:
        return "identical"
    shift = offsets.runs[-1].shift
    if destination_end is not None:
        shift = offsets.shift_at(offsets.origin(destination_end))
    return f"mapped({shift:+d})" if shift else "identical"
