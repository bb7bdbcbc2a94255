"""Records as columns: the shared reader of validation and reconciliation.

What a record is, apart from where it lies: its *time* in ms since 1970, as a consumer gets it, and its *content*, which
are the stored bytes from the length of the key on: key, value and headers with all lengths. An offset, a time
delta and the boundaries of batches are not part of it, so a copy that was batched anew has the same contents.

Records are not decoded one by one: Python walks over their lengths (0.15 us each) and hashes what lies between; numbers
are read from a whole batch at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from xxhash import xxh3_64_intdigest

from tanist.domain.errors import CorruptBatch
from tanist.kafka.protocol.batch import HEADER_SIZE, is_sound
from tanist.spark.codecs import decompressed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.kafka.protocol.batch import BatchHeader

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_MORE: Final = 0x80
_BITS: Final = 0x7F
_LONGEST: Final = 10
_SHORTEST: Final = 6
"""Bytes of a record behind its length: attributes, two deltas, two lengths, the number of headers."""


class Columns(NamedTuple):
    """Records in the order of their offsets, a number for each in every column.

    `content`: xxh3_64 of it, as a signed number. `sizes`: its bytes.
    """

    offsets: Numbers
    times: Numbers
    content: Numbers
    sizes: Numbers

    def where(self, chosen: np.ndarray[Any, Any]) -> Columns:
        """Those records alone."""
        return self if chosen.all() else Columns(*(column[chosen] for column in self))


def columns(header: BatchHeader, batch: memoryview) -> Columns:
    """The records of one whole batch.

    Raises:
        CorruptBatch: its checksum is wrong, or a length leads out of it: a consumer could not read it either.
        UnsupportedBatch: as `decompressed`.
    """
    if not is_sound(header, batch):
        raise CorruptBatch(f"the batch at offset {header.base_offset} is damaged: its checksum does not match")
    body = decompressed(header.codec, batch[HEADER_SIZE:])
    starts, ends = _boundaries(body, header)
    data = np.frombuffer(body + bytes(_LONGEST), np.uint8)
    time_deltas, at = _zigzags(data, np.array(starts, np.int64) + 1)
    offset_deltas, at = _zigzags(data, at)
    last = np.array(ends, np.int64)
    if (at >= last).any():
        raise CorruptBatch(f"the batch at offset {header.base_offset} has a record that ends before its key")
    digest = xxh3_64_intdigest
    content = [digest(body[start:end]) for start, end in zip(at.tolist(), ends, strict=True)]
    times = header.base_timestamp + time_deltas
    if header.is_log_append_time:
        times = np.full(len(ends), header.max_timestamp, np.int64)
    return Columns(header.base_offset + offset_deltas, times, np.array(content, np.uint64).view(np.int64), last - at)


def _boundaries(body: bytes, header: BatchHeader) -> tuple[Sequence[int], Sequence[int]]:
    """Where each record begins, behind its length, and where it ends."""
    starts, ends, at = [], [], 0
    try:
        for _ in range(header.record_count):
            length = body[at]
            at += 1
            if length >= _MORE:
                more = body[at]
                if more < _MORE:  # up to 8 KB: not worth a call
                    length, at = length & _BITS | more << 7, at + 1
                else:
                    length, at = _longer(body, at, length & _BITS)
            starts.append(at)
            at += length >> 1
            ends.append(at)
            if length & 1 or length >> 1 < _SHORTEST:
                break
    except IndexError:
        at = -1
    if at != len(body) or len(ends) != header.record_count:
        raise CorruptBatch(f"the batch at offset {header.base_offset}: the lengths of its records do not fill it")
    return starts, ends


def _longer(body: bytes, at: int, low: int) -> tuple[int, int]:
    """The rest of a varint of more than one byte."""
    shift = 7
    while shift < 7 * _LONGEST:
        byte = body[at]
        at += 1
        low |= (byte & _BITS) << shift
        if byte < _MORE:
            return low, at
        shift += 7
    raise IndexError


def _zigzags(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The signed varint at each of the places, and where it ends. All at once, one byte of each after the other."""
    byte = data[at]
    numbers = (byte & _BITS).astype(np.uint64)
    ends = at + 1
    left = np.flatnonzero(byte >= _MORE)
    for n in range(1, _LONGEST):
        if not len(left):
            break
        byte = data[np.minimum(ends[left], len(data) - 1)]
        numbers[left] |= (byte & _BITS).astype(np.uint64) << np.uint64(7 * n)
        ends[left] += 1
        left = left[byte >= _MORE]
    signs = (numbers & np.uint64(1)).view(np.int64)
    return (numbers >> np.uint64(1)).view(np.int64) ^ -signs, ends
