"""CRC32C of record batches, and how to mend a stored one without reading the records.

A CRC is linear: the checksums of two messages of the same length differ by a function of their difference alone. So
after a change in the head of a batch the *stored* checksum is patched instead of computed anew, and damage that it
would have shown before the change it still shows after it: the source's checksum guards the bytes end to end.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import crc32c as _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ALL_ONES: Final = 0xFFFFFFFF
_BLOCK_BITS: Final = 12
_ZEROS: Final = memoryview(bytes(1 << _BLOCK_BITS))
_Tables: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


crc32c: Final = _native.crc32c
"""The checksum of some bytes as Kafka stores it (Castagnoli, RFC 3720)."""


def patched(stored: int, old_head: Buffer, new_head: Buffer, tail_length: int) -> int:
    """The checksum of `new_head` + tail, from that of `old_head` + tail; the tail, of `tail_length` bytes, is not read.

    Both heads have the same length. Costs about 1 µs, whatever the length of the tail.
    """
    return stored ^ _advance(crc32c(old_head) ^ crc32c(new_head), tail_length)


def _advance(state: int, zeros: int) -> int:
    """The raw remainder `state` after `zeros` more zero bytes: less than a block by hand, the blocks by tables."""
    state = _after_zeros(state, zeros & ((1 << _BLOCK_BITS) - 1))
    blocks, shift = zeros >> _BLOCK_BITS, 0
    while blocks:
        if digit := blocks & 15:
            state = _apply(_operator(digit << shift), state)
        blocks >>= 4
        shift += 4
    return state


def _after_zeros(state: int, zeros: int) -> int:
    return crc32c(_ZEROS[:zeros], state ^ _ALL_ONES) ^ _ALL_ONES


def _apply(operator: _Tables, state: int) -> int:
    a, b, c, d = operator
    return a[state & 255] ^ b[state >> 8 & 255] ^ c[state >> 16 & 255] ^ d[state >> 24]


@cache
def _operator(blocks: int) -> _Tables:
    """What `blocks` blocks of zeros do to a remainder, as one table for each of its four bytes (linear over GF(2))."""
    if blocks == 1:
        columns = [_after_zeros(1 << bit, 1 << _BLOCK_BITS) for bit in range(32)]
    else:
        first, second = _operator(blocks // 2), _operator(blocks - blocks // 2)
        columns = [_apply(second, _apply(first, 1 << bit)) for bit in range(32)]
    return _table(columns[:8]), _table(columns[8:16]), _table(columns[16:24]), _table(columns[24:])


def _table(columns: list[int]) -> tuple[int, ...]:
    table = [0]
    for column in columns:
        table += [entry ^ column for entry in table]
    return tuple(table)
