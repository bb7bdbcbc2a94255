"""Records as columns: the shared reader of validation and reconciliation.

What a record is, apart from where it lies: its *time* in ms since 1970, as a consumer gets it, and its *content*, which
are the stored bytes from the length of the key on: key, value and headers with all lengths. An offset, a time
delta and the boundaries of batches are not part of it, so a copy that was batched anew has the same contents.

Records are not decoded one by one: Python walks over their lengths (0.1 us each) and hashes what lies between (0.1 us);
numbers are read from many batches at once.
"""

from __future__ import annotations

from itertools import repeat
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


def body_of(header: BatchHeader, batch: memoryview) -> bytes | memoryview:
    """The records of one whole batch as they were before they were compressed, if they were.

    Raises:
        CorruptBatch: its checksum is wrong: a consumer could not read it either.
        UnsupportedBatch: as `decompressed`.
    """
    if not is_sound(header, batch):
        raise CorruptBatch(f"the batch at offset {header.base_offset} is damaged: its checksum does not match")
    packed = batch[HEADER_SIZE:]
    return decompressed(header.codec, packed) if header.codec else packed


def columns(batches: Sequence[tuple[BatchHeader, bytes | memoryview]]) -> Columns:
    """The records of batches, each with its `body_of`, all at once: what a call of numpy costs is paid once for all.

    Raises:
        CorruptBatch: a length leads out of a batch: a consumer could not read it either.
    """
    try:
        return _columns([header for header, _ in batches], [body for _, body in batches])
    except IndexError as beyond:
        if len(batches) == 1:
            where = f"the batch at offset {batches[0][0].base_offset}"
            raise CorruptBatch(f"{where}: the lengths of its records do not fill it") from beyond
    for each in batches:
        columns([each])
    raise AssertionError("each batch can be read, and all of them together cannot")


def _columns(headers: Sequence[BatchHeader], bodies: Sequence[bytes | memoryview]) -> Columns:
    """Raises IndexError: the records do not fill their batches."""
    body = b"".join([*bodies, bytes(_LONGEST)])
    counts = [header.record_count for header in headers]
    found = np.array(_boundaries(body, sum(counts)), np.int64)
    data = np.frombuffer(body, np.uint8)
    if (found[np.cumsum(counts)] != np.cumsum([len(each) for each in bodies])).any() or (data[found[:-1]] & 1).any():
        raise IndexError  # a batch does not end where a record ends, or a length is negative
    starts, last = _zigzags(data, found[:-1])[1], found[1:]
    if (last - starts < _SHORTEST).any():
        raise IndexError
    time_deltas, at = _zigzags(data, starts + 1)
    offset_deltas, at = _zigzags(data, at)
    if (at >= last).any():
        raise IndexError  # it ends before its key
    digest = xxh3_64_intdigest
    content = [digest(body[start:end]) for start, end in zip(at.tolist(), last.tolist(), strict=True)]
    offsets = np.repeat([header.base_offset for header in headers], counts) + offset_deltas
    times = np.repeat([header.base_timestamp for header in headers], counts) + time_deltas
    if any(header.is_log_append_time for header in headers):
        stamped = np.repeat([header.is_log_append_time for header in headers], counts)
        times = np.where(stamped, np.repeat([header.max_timestamp for header in headers], counts), times)
    return Columns(offsets, times, np.array(content, np.uint64).view(np.int64), last - at)


def _boundaries(body: bytes, count: int) -> Sequence[int]:
    """Where each record begins, with its length, and where the last one ends. Raises IndexError: outside of `body`."""
    found, at = [0], 0
    add = found.append
    for _ in repeat(None, count):
        length = body[at]
        if length < _MORE:
            at += (length >> 1) + 1
        elif (more := body[at + 1]) < _MORE:  # up to 8 KB: not worth a call
            at += (length >> 1) + (more << 6) - 62  # (length & 127 | more << 7) >> 1, and the two bytes
        else:
            length, at = _longer(body, at + 1, length & _BITS)
            at += length >> 1
        add(at)
    return found


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
