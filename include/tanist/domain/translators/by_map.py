"""Translation by the offset map, which knows every record of the copy: it is exact at any lag.

Of identical offsets its ranges are stored before their records are copied. Of mapped ones they are committed with them,
and a position is that of a reader of committed records: markers, and what aborted attempts have left, may lie before
the record that it reads next.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from tanist.domain.translation import Conservative, Exact, InputKind, Translator, Unknown

if TYPE_CHECKING:
    from tanist.domain.log_ends import Span
    from tanist.domain.names import DestinationOffset, SourceOffset
    from tanist.domain.offset_map import OffsetMap
    from tanist.domain.translation import Inputs, Translation


def translate(position: SourceOffset, offsets: OffsetMap, copy: Span[DestinationOffset] | None) -> Translation:
    """The destination offset for the committed offset `position`. Exact at any lag, also if the source is down."""
    if copy is None:
        return Unknown("the log of the mirror partition could not be read")
    if position < 0:
        return Unknown(f"{position} is not a valid offset")
    offset = offsets.locate(position)
    inside = max(copy.start, min(offset, copy.end))
    if offsets.unread and offsets.until is not None and position > offsets.until:
        return Conservative(inside, f"the copy is known up to source offset {offsets.until}: {offsets.unread}")
    if (ahead := _ahead(position, offsets, copy.end)) > 0:
        why = f"committed {ahead} offset(s) ahead of the copied records: clamped to the end"
        return Conservative(inside, why, ahead)
    if offset < copy.start:
        return Conservative(copy.start, f"the mirror partition begins at {copy.start}: older records are gone")
    return Exact(inside)


def _ahead(position: SourceOffset, offsets: OffsetMap, end: DestinationOffset) -> int:
    """By how many offsets a position lies behind what a copy that ends at `end` has; 0 or less: it does not."""
    offset = offsets.locate(position)
    if offsets.until is None:
        return offset - end
    return position - (offsets.origin(end) if offset > end else offsets.until)


def explain(position: SourceOffset, read: Inputs) -> str:
    """The range of the map that `position` is in."""
    runs, copied = read.map.runs, read.map.until
    if copied is not None and position >= copied:
        known = (
            f"known up to source {copied} ({read.map.unread})" if read.map.unread else f"copied up to source {copied}"
        )
        return f"map: {known}, which is at destination {read.map.locate(copied)}"
    index = bisect_right(runs, position, key=lambda run: run.source)
    if index == 0:
        return (
            f"map: identical here ({len(runs)} range(s) at later offsets)"
            if runs
            else "map: identical, it has no ranges"
        )
    run = runs[index - 1]
    until = f" up to {runs[index].source}" if index < len(runs) else ""
    return (
        f"map: range {index} of {len(runs)}: source {run.source}{until} is at destination {run.destination} "
        f"({run.shift:+d})"
    )


MAP: Final = Translator(
    name="map",
    basis="offset map",
    needs=frozenset({InputKind.OFFSET_MAP}),
    translate=lambda position, read: translate(position, read.map, read.copy),
    explain=explain,
)
