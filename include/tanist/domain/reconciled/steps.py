"""Where readers of a source partition go on in its copy, for every position: a table of steps, as it is published.

From `source[i]` up to the next step a reader goes on at `destination[i]`, or as far behind it where the step slopes.
The table is packed into chunks: 64 bit numbers in columns, little-endian, differences where they are small, deflated.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from tanist.domain.reconciled.placements import STANDINGS, WHY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.reconciled.placements import Standing

MOST_STEPS: Final = 200_000
"""Of one partition. What has more is made coarser where it is oldest."""
IN_A_CHUNK: Final = 1_000
_COLUMNS: Final = 4
_BYTES: Final = 8
_EXACT, _SLOPES, _STANDING = 1, 2, 2
"""Bits of a kind, and by how many the placement is shifted."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a table, from `source` up to `until` (None: it is the last). `placement`, `again`: as a job has them.

    `exact`: the next unread record is the first that comes, and nothing comes again that was read.
    """

    source: int
    until: int | None
    destination: int
    slopes: bool
    exact: bool
    placement: Standing
    again: int

    def at(self, position: int) -> int:
        """Where the reader of a position in it goes on, in destination offsets."""
        return self.destination + (position - self.source if self.slopes else 0)

    @property
    def why(self) -> str:
        """Why it is not exact."""
        return WHY.get(self.placement, WHY[STANDINGS[1]])


@dataclass(frozen=True, slots=True)
class Steps:
    """`source` increases, and `destination` does not fall from a position to the next. Columns; build it with `of`."""

    source: Sequence[int]
    destination: Sequence[int]
    kind: Sequence[int]
    again: Sequence[int]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Steps:
        """A table of steps that are in their order."""
        return cls(
            array("q", [each.source for each in steps]),
            array("q", [each.destination for each in steps]),
            array("q", [kind_of(each.placement, exact=each.exact, slopes=each.slopes) for each in steps]),
            array("q", [each.again for each in steps]),
        )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, n: int) -> Step:
        kind = self.kind[n]
        number = kind >> _STANDING
        return Step(
            source=self.source[n],
            until=self.source[n + 1] if n + 1 < len(self) else None,
            destination=self.destination[n],
            slopes=bool(kind & _SLOPES),
            exact=bool(kind & _EXACT),
            placement=STANDINGS[number] if number < len(STANDINGS) else STANDINGS[1],  # of a later version
            again=self.again[n],
        )

    def find(self, position: int) -> int | None:
        """The number of the step that `position` is in; None: it lies before the first."""
        n = bisect_right(self.source, position) - 1
        return n if n >= 0 else None


def kind_of(placement: Standing, *, exact: bool, slopes: bool) -> int:
    """A number for the column `kind`."""
    return STANDINGS.index(placement) << _STANDING | slopes * _SLOPES | exact * _EXACT


def packed(steps: Steps) -> tuple[str, ...]:
    """The chunks of a table, each of at most IN_A_CHUNK steps."""
    return tuple(_chunk(steps, start) for start in range(0, len(steps), IN_A_CHUNK))


def _chunk(steps: Steps, start: int) -> str:
    here = slice(start, start + IN_A_CHUNK)
    source = steps.source[here]
    ahead = [there - own for there, own in zip(steps.destination[here], source, strict=True)]
    columns = array("q", [*_differences(source), *_differences(ahead), *steps.kind[here], *steps.again[here]])
    return b64encode(zlib.compress(_little_endian(columns).tobytes())).decode()


def unpacked(chunks: Sequence[str]) -> Steps:
    """The table of all `chunks`, in their order.

    Raises:
        ValueError: they are none.
    """
    columns = tuple(array("q") for _ in range(_COLUMNS))
    for each in chunks:
        for column, more in zip(columns, _columns(each), strict=True):
            column.extend(more)
    if not columns[0] or any(later <= own for own, later in pairwise(columns[0])):
        raise ValueError("its steps are not in their order")
    return Steps(*columns)


def _columns(chunk: str) -> Iterator[array[int]]:
    most = IN_A_CHUNK * _COLUMNS * _BYTES
    try:
        inflating = zlib.decompressobj()
        raw = inflating.decompress(b64decode(chunk, validate=True), most + 1)  # its end must be seen
    except zlib.error as error:
        raise ValueError(f"it cannot be inflated: {error}") from error
    if not inflating.eof or not raw or len(raw) > most or len(raw) % (_COLUMNS * _BYTES):
        raise ValueError("it is truncated, or too long")
    numbers = array("q")
    numbers.frombytes(raw)
    numbers = _little_endian(numbers)
    count = len(numbers) // _COLUMNS
    source, ahead = (array("q", accumulate(numbers[n * count : (n + 1) * count])) for n in range(2))
    yield source
    yield array("q", [own + shift for own, shift in zip(source, ahead, strict=True)])
    yield numbers[2 * count : 3 * count]
    yield numbers[3 * count :]


def _differences(numbers: Sequence[int]) -> Iterator[int]:
    yield numbers[0]
    yield from (later - own for own, later in pairwise(numbers))


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
