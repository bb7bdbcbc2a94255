"""Translation by the offset map, which knows every record of the copy: it is exact at any lag.

Of identical offsets its ranges are stored before their records are copied. Of mapped ones they are committed with them,
and a position is that of a reader of committed records: markers, and what aborted attempts have left, may lie before
the record that it reads next.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from tanist.domain.offset_map import LOST
from tanist.domain.translation import Conservative, Exact, InputKind, Translator, Unknown

if TYPE_CHECKING:
    from tanist.domain.log_ends import Span
    from tanist.domain.names import DestinationOffset, SourceOffset
    from tanist.domain.offset_map import AnchoredSpan, OffsetMap
    from tanist.domain.translation import Inputs, Translation


def translate(position: SourceOffset, offsets: OffsetMap, copy: Span[DestinationOffset] | None) -> Translation:
    """The destination offset for the committed offset `position`. Exact at any lag, also if the source is down."""
    if copy is None:
        return Unknown("the log of the mirror partition could not be read")
    if position < 0:
        return Unknown(f"{position} is not a valid offset")
    span = offsets.unwalked_at(position)
    return _located(position, offsets, copy) if span is None else _between_anchors(span, offsets, copy)


def _located(position: SourceOffset, offsets: OffsetMap, copy: Span[DestinationOffset]) -> Translation:
    offset = offsets.locate(position)
    inside = max(copy.start, min(offset, copy.end))
    if offsets.unread and offsets.until is not None and position > offsets.until:
        return Conservative(inside, f"the copy is known up to source offset {offsets.until}: {offsets.unread}")
    if (ahead := _ahead(position, offsets, copy.end)) > 0:
        why = f"committed {ahead} offset(s) ahead of the copied records: clamped to the end"
        return Conservative(inside, why, ahead)
    if offset < copy.start:
        return _before_log_start(copy)
    return Exact(inside)


def _between_anchors(span: AnchoredSpan, offsets: OffsetMap, copy: Span[DestinationOffset]) -> Conservative:
    """Where the walk would begin that could not be made, or has not told."""
    if span.until.destination <= copy.start:
        return _before_log_start(copy)
    start = max(copy.start, min(span.start.destination, copy.end))
    why = LOST if span.is_lost else offsets.why_not.get(span) or "the log of the copy was not read there"
    most = min(span.until.destination, copy.end) - start
    return Conservative(start, f"up to {max(0, most)} offset(s) before the exact one, at the last anchor: {why}")


def _before_log_start(copy: Span[DestinationOffset]) -> Conservative:
    return Conservative(copy.start, f"the mirror partition begins at {copy.start}: older records are gone")


def _ahead(position: SourceOffset, offsets: OffsetMap, end: DestinationOffset) -> int:
    """By how many offsets a position lies behind what a copy that ends at `end` has; 0 or less: it does not."""
    offset = offsets.locate(position)
    if offsets.until is None:
        return offset - end
    return position - (offsets.origin(end) if offset > end else offsets.until)


def explain(position: SourceOffset, read: Inputs) -> str:
    """The range of the map that `position` is in."""
    runs, copied = read.map.runs, read.map.until
    if (span := read.map.unwalked_at(position)) is not None and span.is_lost:
        return f"map: {LOST}, from source {max(0, span.start.source)} up to {span.until.source}"
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
