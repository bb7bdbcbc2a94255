"""The ranges of a mapped copy: found as its batches are appended, kept with its position, published in pieces.

Every transaction leaves a marker in the copy, every marker and aborted record of the source leaves an offset out: each
begins a range. The last range begins where the copy ends: at the next source offset, behind the last marker.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell
from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MORE: Final = 0x80
_BITS: Final = 0x7F


class UnreadableRanges(CouldNotTell):
    name = "UNREADABLE_RANGES"
    operator_action = "the offset map of the partition is damaged: restore the state topics from their last export"


@stored("ranges", "mirror", "partition", "source", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRangesWritten(MirrorRecord):
    """Ranges of a mapped copy that follow each other, the first from `source` on. In `__mirror_offsets`.

    `ranges`: as `encoded` has them.
    """

    mirror: MirrorName
    partition: MirrorPartition
    source: SourceOffset
    ranges: str
    mirror_id: str = ""

    @property
    def runs(self) -> tuple[OffsetRange, ...]:
        """Raises UnreadableRanges."""
        return decoded(self.ranges)


def encoded(runs: Sequence[OffsetRange]) -> str:
    """Some three bytes a range, as text: of each offset how far it lies behind the one before."""
    out = bytearray()
    source, destination = 0, 0
    for run in runs:
        out += _varint(run.source - source) + _varint(run.destination - destination)
        source, destination = run.source, run.destination
    return base64.urlsafe_b64encode(bytes(out)).decode().rstrip("=")


def decoded(text: str) -> tuple[OffsetRange, ...]:
    """Raises UnreadableRanges."""
    try:
        numbers = list(_numbers(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)))
    except (binascii.Error, ValueError) as why:
        raise UnreadableRanges(f"{text[:40]!r} is no list of offset ranges") from why
    if len(numbers) % 2:
        raise UnreadableRanges(f"{text[:40]!r} ends within an offset range")
    runs: list[OffsetRange] = []
    source, destination = 0, 0
    for after_source, after_destination in zip(numbers[::2], numbers[1::2], strict=True):
        source, destination = source + after_source, destination + after_destination
        runs.append(OffsetRange(SourceOffset(source), DestinationOffset(destination)))
    return tuple(runs)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > _BITS:
        out.append(number & _BITS | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & _BITS) << shift
        shift += 7
        if byte < _MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError(data[-1])


def extended(runs: Sequence[OffsetRange], run: OffsetRange) -> tuple[OffsetRange, ...]:
    """`runs` and one more, which begins at the last one or behind it.

    Left out is a run with the shift of the one before, and one that ends where it begins in the copy: it has no record.
    The first of a copy stays: it says where the copy begins.
    """
    kept = list(runs)
    while kept and kept[-1].source > 0 and kept[-1].destination >= run.destination:
        kept.pop()
    if kept and kept[-1].shift == run.shift:
        return tuple(kept)
    return (*kept, run)


def first_runs(start: SourceOffset, end: DestinationOffset) -> tuple[OffsetRange, ...]:
    """The ranges of a copy that begins at `start`, behind `end` in the mirror partition.

    Whatever lies before `start` is not in the copy: reading goes on at its beginning.
    """
    zero = OffsetRange(SourceOffset(0), end)
    return (zero,) if start == 0 else (zero, OffsetRange(start, end))


def appended(runs: Sequence[OffsetRange], batches: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """`runs` of the copy behind further batches, each by its first source offset and where it was appended."""
    found = tuple(runs)
    for each in batches:
        found = extended(found, each)
    return found


def continues(published: Iterable[OffsetRange], riding: Sequence[OffsetRange]) -> bool:
    """Whether no range is missing between those that are published and those that ride with a position.

    The last published one rides on: it, or the next one where it has no record, begins where that one begins in the
    copy. State topics that were restored from an older export lack what was published since.
    """
    return not riding or riding[0].source == 0 or any(each.destination == riding[0].destination for each in published)
