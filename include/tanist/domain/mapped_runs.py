"""The ranges of a mapped copy: found as its batches are appended, kept with its position, published in pieces.

Every transaction leaves a marker in the copy, every marker and aborted record of the source leaves an offset out: each
begins a range. The last range begins where the copy ends: at the next source offset, behind the last marker.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell
from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored, stored_since
from tanist.domain.varints import BITS, MORE, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OF_A_PIECE: Final = 4_000
"""Ranges of a piece that is made of many."""
OF_ONE_RANGE: Final = 28
"""So many characters have two numbers of 64 bits."""


class UnreadableRanges(CouldNotTell):
    name = "UNREADABLE_RANGES"
    operator_action = "the offset map of the partition is damaged: restore the state topics from their last export"


@stored("ranges", "mirror", "partition", "source", "until", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRangesWritten(MirrorRecord):
    """Ranges of a mapped copy that follow each other, the first from `source` on. In `__mirror_offsets`.

    `until`: where the last one begins, which is where the copy went on then. The key has both, so that what a worker
    publishes late does not replace what another one has found since.
    `ranges`: as `encoded` has them. `size`: bytes of the copy from the first of them to the last; 0: not known.
    """

    mirror: MirrorName
    partition: MirrorPartition
    source: SourceOffset
    ranges: str
    mirror_id: str = ""
    until: SourceOffset = SourceOffset(0)  # noqa: RUF009
    size: int = field(default=0, metadata=stored_since(1))

    @property
    def runs(self) -> tuple[OffsetRange, ...]:
        """Raises UnreadableRanges."""
        return decoded(self.ranges)

    @property
    def first(self) -> OffsetRange:
        """The first of them. Raises UnreadableRanges."""
        return decoded(self.ranges[:OF_ONE_RANGE], most=1)[0]


def pieces(
    mirror: MirrorName, mirror_id: str, at: MirrorPartition, runs: Sequence[OffsetRange], size: int
) -> Iterator[OffsetRangesWritten]:
    """Records of `runs`, each of which begins with the last range of the one before. `size`: of all, in bytes."""
    for first in range(0, max(1, len(runs) - 1), _OF_A_PIECE):
        some = runs[first : first + _OF_A_PIECE + 1]
        yield OffsetRangesWritten(
            mirror=mirror,
            mirror_id=mirror_id,
            partition=at,
            source=some[0].source,
            until=some[-1].source,
            ranges=encoded(some),
            size=size * len(some) // len(runs),
        )


def encoded(runs: Sequence[OffsetRange]) -> str:
    """Some three bytes a range, as text: of each offset how far it lies behind the one before."""
    out = bytearray()
    source, destination = 0, 0
    for run in runs:
        out += varint(run.source - source) + varint(run.destination - destination)
        source, destination = run.source, run.destination
    return base64.urlsafe_b64encode(bytes(out)).decode().rstrip("=")


def decoded(text: str, most: int | None = None) -> tuple[OffsetRange, ...]:
    """The ranges, the first `most` of them if given, where `text` may be cut behind them. Raises UnreadableRanges."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        numbers = list(islice(_numbers(data), None if most is None else 2 * most))
    except (binascii.Error, ValueError) as why:
        raise UnreadableRanges(f"{text[:40]!r} is no list of offset ranges") from why
    if len(numbers) % 2 or (most and not numbers):
        raise UnreadableRanges(f"{text[:40]!r} ends within an offset range")
    runs: list[OffsetRange] = []
    source, destination = 0, 0
    for after_source, after_destination in zip(numbers[::2], numbers[1::2], strict=True):
        source, destination = source + after_source, destination + after_destination
        runs.append(OffsetRange(SourceOffset(source), DestinationOffset(destination)))
    return tuple(runs)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & BITS) << shift
        shift += 7
        if byte < MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError(data[-1])


def extended(runs: Sequence[OffsetRange], batch: OffsetRange, count: int) -> tuple[OffsetRange, ...]:
    """`runs` and `count` records more, the first of them at `batch`.

    The last range of a copy is where it goes on, behind its last record: it has none yet. All others have as many as
    fit in both logs up to the next range, so what the source left out between them can be told (`records_of`): where
    both logs leave something out, one range more stands between.
    """
    next_one = OffsetRange(SourceOffset(batch.source + count), DestinationOffset(batch.destination + count))
    if runs[-1] == batch and len(runs) > 1 and runs[-2].shift == batch.shift:
        return (*runs[:-1], next_one)
    kept, behind = _split(moved(runs, batch))
    if kept and kept[-1].shift == behind[0].shift:
        behind = behind[1:]
    return (*kept, *behind, next_one)


def moved(runs: Sequence[OffsetRange], to: OffsetRange) -> tuple[OffsetRange, ...]:
    """`runs` of a copy that goes on at `to`, and has no more records than before. `runs`: at least one."""
    kept, behind = _split(runs)
    ends = OffsetRange(behind[0].source, to.destination)
    return (*kept, ends) if ends == to else (*kept, ends, to)


def without_records(runs: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The last ones of `runs`, which say that the copy ends there, and from where on the source has no record."""
    return _split(runs)[1]


def _split(runs: Sequence[OffsetRange]) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    first = len(runs) - 1
    while first > 0 and runs[first - 1].destination == runs[-1].destination:
        first -= 1
    return tuple(runs[:first]), tuple(runs[first:])


def records_of(run: OffsetRange, following: OffsetRange) -> int:
    """How many records a range has that another one follows."""
    return min(following.source - run.source, following.destination - run.destination)


def first_runs(start: SourceOffset, end: DestinationOffset) -> tuple[OffsetRange, ...]:
    """The ranges of a copy that begins at `start`, behind `end` in the mirror partition.

    Whatever lies before `start` is not in the copy: reading goes on at its beginning.
    """
    zero = OffsetRange(SourceOffset(0), end)
    return (zero,) if start == 0 else (zero, OffsetRange(start, end))
