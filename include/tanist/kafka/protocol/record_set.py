"""The records inside a batch (KIP-98, DefaultRecord). Only for small batches: the fetcher never decodes records.

    length | attributes i8 | timestampDelta | offsetDelta | keyLength key | valueLength value | headers

All numbers are zigzag varints; a length of -1 is null. Codecs other than none and gzip need libraries that we do not
ship: their records can be compared as whole batches only.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CorruptBatch, CouldNotTell
from tanist.kafka.protocol.batch import HEADER_SIZE, header_of
from tanist.kafka.protocol.encoding import read_zigzag, zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.kafka.protocol.batch import BatchHeader

_NONE: Final = 0
_GZIP: Final = 1
_GZIP_WINDOW: Final = 31
_MOST: Final = 64 << 20
"""Bytes of one batch once unpacked."""


class PackedAway(CouldNotTell):
    name, retriable = "UNSUPPORTED_COMPRESSION", False
    operator_action = "none: these records are compared as whole batches only"


class Record(NamedTuple):
    """`timestamp` in ms as the batch tells it. `tail`: the headers as they are stored, count first."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    tail: bytes

    def same(self, other: Record) -> bool:
        """The same record, wherever it lies."""
        return self[1:] == other[1:]


def encoded(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes:
    """The first record of a batch, at the batch's own time."""
    tail = b"".join(_field(name.encode()) + _field(header) for name, header in headers)
    body = b"\0\0\0" + _field(key) + _field(value) + zigzag(len(headers)) + tail
    return zigzag(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def records_of(batch: memoryview) -> Iterator[Record]:
    """The records of one whole batch, in order; compacted ones have holes between their offsets.

    Raises:
        PackedAway: the codec is snappy, lz4 or zstd.
        CorruptBatch: a length leads out of the batch.
    """
    header = header_of(batch)
    yield from records_in(header, _unpacked(batch, header.codec))


def records_in(header: BatchHeader, body: bytes) -> Iterator[Record]:
    """As `records_of`, from what the batch holds once decompressed."""
    at, end = 0, len(body)
    for _ in range(header.record_count):
        record, at = _record(body, at, end)
        time = header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp
        yield record._replace(offset=header.base_offset + record.offset, timestamp=time)


def _unpacked(batch: memoryview, codec: int) -> bytes:
    if codec == _NONE:
        return bytes(batch[HEADER_SIZE:])
    if codec != _GZIP:
        raise PackedAway(f"codec {codec}: only none and gzip can be decompressed here")
    try:
        return zlib.decompressobj(wbits=_GZIP_WINDOW).decompress(batch[HEADER_SIZE:], _MOST)
    except zlib.error as broken:
        raise CorruptBatch(f"records cannot be decompressed: {broken}") from broken


def _record(body: bytes, at: int, end: int) -> tuple[Record, int]:
    length, at = read_zigzag(body, at)
    stop = at + length
    if length <= 0 or stop > end:
        raise CorruptBatch(f"a record of {length} bytes in a batch of {end}")
    timestamp, at = read_zigzag(body, at + 1)
    offset, at = read_zigzag(body, at)
    key, at = _bytes(body, at, stop)
    value, at = _bytes(body, at, stop)
    return Record(offset, timestamp, key, value, body[at:stop]), stop


def _bytes(body: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    length, at = read_zigzag(body, at)
    if length < 0:
        return None, at
    if at + length > stop:
        raise CorruptBatch(f"a field of {length} bytes leads out of its record")
    return body[at : at + length], at + length
