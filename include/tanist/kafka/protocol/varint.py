"""Variable-length integers of the record format and of flexible frames (Protocol Buffers; ByteUtils)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CorruptBatch

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LONGEST: Final = 10
_MORE: Final = 0x80
_BITS: Final = 0x7F


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    out = bytearray()
    while number > _BITS:
        out.append(number & _BITS | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


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
        number |= (byte & _BITS) << 7 * index
        if byte < _MORE:
            return number, at + index + 1
    raise CorruptBatch(f"a number of more than {_LONGEST} bytes at byte {at}")


def read_zigzag(data: Buffer, at: int) -> tuple[int, int]:
    """A signed number at `at`, and where the next field begins. Raises as `read_varint`."""
    number, at = read_varint(data, at)
    return number >> 1 ^ -(number & 1), at


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """As `read_zigzag`, quick for what is short. Raises also IndexError."""
    low = data[at]
    if low < _MORE:
        return low >> 1 ^ -(low & 1), at + 1
    high = data[at + 1]
    if high < _MORE:
        low += (high - 1) << 7
        return low >> 1 ^ -(low & 1), at + 2
    return read_zigzag(data, at)
