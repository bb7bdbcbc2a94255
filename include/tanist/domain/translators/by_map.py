"""Translation by the offset map. Its ranges are stored before their records are copied, so it is exact at any lag."""

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
    if offset > copy.end:
        ahead = offset - copy.end
        return Conservative(
            copy.end, (f"committed {ahead} offset(s) ahead of the copied records: clamped to the end"), ahead
        )
    if offset < copy.start:
        return Conservative(copy.start, f"the mirror partition begins at {copy.start}: older records are gone")
    return Exact(offset)


def explain(position: SourceOffset, read: Inputs) -> str:
    """The range of the map that `position` is in."""
    runs = read.map.runs
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
