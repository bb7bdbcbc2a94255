"""Unsigned numbers of any size, seven bits a byte, lowest first: as record batches and the offset map have them."""

from __future__ import annotations

from typing import Final

MORE: Final = 0x80
"""Set in every byte but the last one of a number."""
BITS: Final = 0x7F


def varint(number: int) -> bytes:
    """`number` is not negative."""
    out = bytearray()
    while number > BITS:
        out.append(number & BITS | MORE)
        number >>= 7
    out.append(number)
    return bytes(out)
