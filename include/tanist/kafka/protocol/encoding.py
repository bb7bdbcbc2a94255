"""How a frame writes numbers, strings and arrays: the classic way, and the flexible one of newer versions (KIP-482).

A reader is given the frame and where the field begins, and says where the next one does. A field that runs over the
end of the frame raises one of `UNREADABLE`, or is noticed where the frame should have ended.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.errors import CorruptBatch, MalformedFrame
from tanist.domain.varints import BITS, MORE, varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Buffer


_LONGEST: Final = 10


def zigzag(number: int) -> bytes:
    """A signed number: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """An unsigned number at `at`, and where the next field begins.

    Raises:
        CorruptBatch: it has no end, or more than ten bytes.
    """
    view, number = memoryview(data), 0
    for index in range(_LONGEST):
        if at + index >= len(view):
            raise CorruptBatch(f"a number runs over the end at byte {at}")
        byte = view[at + index]
        number |= (byte & BITS) << 7 * index
        if byte < MORE:
            return number, at + index + 1
    raise CorruptBatch(f"a number of more than {_LONGEST} bytes at byte {at}")


def read_zigzag(data: Buffer, at: int) -> tuple[int, int]:
    """A signed number at `at`, and where the next field begins. Raises as `read_varint`."""
    number, at = read_varint(data, at)
    return number >> 1 ^ -(number & 1), at


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """As `read_zigzag`, quick for what is short. Raises also IndexError."""
    low = data[at]
    if low < MORE:
        return low >> 1 ^ -(low & 1), at + 1
    high = data[at + 1]
    if high < MORE:
        low += (high - 1) << 7
        return low >> 1 ^ -(low & 1), at + 2
    return read_zigzag(data, at)


I16: Final = Struct(">h")
I32: Final = Struct(">i")
UNREADABLE: Final = (StructError, IndexError, OverflowError, CorruptBatch)
_ID_BYTES: Final = 16


class Encoding(Protocol):
    """One of the two ways."""

    null_string: bytes
    no_tags: bytes
    """The end of each structure and header: no tagged fields."""
    no_complaint: bytes
    """The end of a partition of a produce answer without any: no entries, no text, no tagged fields."""

    def string(self, text: str) -> bytes: ...
    def count(self, number: int) -> bytes:
        """What comes before so many entries or bytes."""
        ...

    def read_string(self, frame: memoryview, at: int) -> tuple[str, int]:
        """A nullable string; null reads as empty."""
        ...

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        """Of the entries of an array that may not be null."""
        ...

    def read_size(self, frame: memoryview, at: int) -> tuple[int, int]:
        """Of the entries of an array, or of bytes; -1 for null."""
        ...

    def tags(self, frame: memoryview, at: int) -> tuple[Mapping[int, memoryview], int]:
        """The tagged fields at the end of a structure, by tag."""
        ...

    def skip_tags(self, frame: memoryview, at: int) -> int: ...


class _Classic:
    null_string = I16.pack(-1)
    no_tags = b""
    no_complaint = I32.pack(0) + null_string

    def string(self, text: str) -> bytes:
        encoded = text.encode()
        return I16.pack(len(encoded)) + encoded

    def count(self, number: int) -> bytes:
        return I32.pack(number)

    def read_string(self, frame: memoryview, at: int) -> tuple[str, int]:
        length: int = I16.unpack_from(frame, at)[0]
        return _text(frame, at + I16.size, length)

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        return _entries(I32.unpack_from(frame, at)[0]), at + I32.size

    def read_size(self, frame: memoryview, at: int) -> tuple[int, int]:
        return I32.unpack_from(frame, at)[0], at + I32.size

    def tags(self, _frame: memoryview, at: int) -> tuple[Mapping[int, memoryview], int]:
        return {}, at

    def skip_tags(self, _frame: memoryview, at: int) -> int:
        return at


class _Flexible:
    """Lengths are varints of one more, so that 0 is null."""

    null_string = varint(0)
    no_tags = varint(0)
    no_complaint = varint(1) + null_string + no_tags

    def string(self, text: str) -> bytes:
        encoded = text.encode()
        return varint(len(encoded) + 1) + encoded

    def count(self, number: int) -> bytes:
        return varint(number + 1)

    def read_string(self, frame: memoryview, at: int) -> tuple[str, int]:
        length, at = _number(frame, at)
        return ("", at) if length <= 1 else _text(frame, at, length - 1)

    def read_count(self, frame: memoryview, at: int) -> tuple[int, int]:
        number, at = _number(frame, at)
        return _entries(number - 1), at

    def read_size(self, frame: memoryview, at: int) -> tuple[int, int]:
        number, at = _number(frame, at)
        return number - 1, at

    def tags(self, frame: memoryview, at: int) -> tuple[Mapping[int, memoryview], int]:
        found: dict[int, memoryview] = {}
        count, at = _number(frame, at)
        for _ in range(count):
            tag, at = read_varint(frame, at)
            size, at = read_varint(frame, at)
            found[tag] = frame[at : at + size]
            at += size
        return found, at

    def skip_tags(self, frame: memoryview, at: int) -> int:
        return self.tags(frame, at)[1]


CLASSIC: Final[Encoding] = _Classic()
FLEXIBLE: Final[Encoding] = _Flexible()


def read_id(frame: memoryview, at: int) -> tuple[bytes, int]:
    """Sixteen bytes, in either encoding."""
    return bytes(frame[at : at + _ID_BYTES]), at + _ID_BYTES


def _number(frame: memoryview, at: int) -> tuple[int, int]:
    byte = frame[at]
    return (byte, at + 1) if byte < MORE else read_varint(frame, at)


def _text(frame: memoryview, at: int, length: int) -> tuple[str, int]:
    stop = at + max(length, 0)
    try:
        return str(frame[at:stop], "utf-8"), stop
    except UnicodeDecodeError as broken:
        raise MalformedFrame(f"a name at byte {at} is not UTF-8") from broken


def _entries(number: int) -> int:
    if number < 0:
        raise MalformedFrame(f"a list of {number} entries")
    return number
