"""Records of a batch, decompressed: the codecs of Kafka as Java clients and librdkafka write them.

This shares no code with the fetcher, which never decompresses. What a batch may grow to is bounded: `MOST`.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.kafka.protocol.encoding import read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 256 << 20
"""Bytes that the records of one batch may have: more of them are not read (a batch of 1 MB can hold 1 GB of zeros)."""
_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
_GZIP_WINDOW: Final = 31
_AT_ONCE: Final = 1 << 20
_XERIAL: Final = b"\x82SNAPPY\0"
"""What the streams of snappy-java begin with (SnappyOutputStream); two versions of four bytes follow."""
_XERIAL_HEADER: Final = 16
_SIZE: Final = Struct(">i")


def decompressed(codec: int, packed: memoryview) -> bytes:
    """The records of a batch, `packed` by its `codec`.

    Raises:
        CorruptBatch: they are not what the codec writes.
        UnsupportedBatch: an unknown codec, or more than `MOST` bytes.
    """
    if codec == _NONE:
        return bytes(packed)
    try:
        return b"".join(_bounded(_parts(codec, packed)))
    except (OSError, zlib.error, ValueError) as broken:
        raise CorruptBatch(f"records cannot be decompressed: {broken}") from broken


def _bounded(parts: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MOST:
            raise UnsupportedBatch(f"the records of a batch have more than {MOST} bytes once decompressed")
        yield part


def _parts(codec: int, packed: memoryview) -> Iterator[bytes]:
    if codec == _GZIP:
        return _gzip(packed)
    if codec == _SNAPPY:
        return _snappy(packed)
    if codec in {_LZ4, _ZSTD}:
        return _stream("lz4" if codec == _LZ4 else "zstd", packed)
    raise UnsupportedBatch(f"unknown codec {codec}")


def _gzip(packed: memoryview) -> Iterator[bytes]:
    """Members one after another, as GZIPInputStream reads them."""
    left = bytes(packed)
    while left:
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
        while not unpacker.eof:
            part = unpacker.decompress(left, _AT_ONCE)
            left = unpacker.unconsumed_tail
            if not part and not left and not unpacker.eof:
                raise CorruptBatch("records cannot be decompressed: they end within a gzip member")
            yield part
        left = unpacker.unused_data


def _snappy(packed: memoryview) -> Iterator[bytes]:
    """The blocks of snappy-java; of other clients one block without a frame."""
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        yield _block(packed)
        return
    at = _XERIAL_HEADER
    while at < len(packed):
        if len(packed) - at < _SIZE.size:
            raise CorruptBatch("records cannot be decompressed: they end within a snappy block")
        size = _SIZE.unpack_from(packed, at)[0]
        at += _SIZE.size
        if not 0 <= size <= len(packed) - at:
            raise CorruptBatch(f"records cannot be decompressed: a snappy block of {size} bytes")
        yield _block(packed[at : at + size])
        at += size


def _block(packed: memoryview) -> bytes:
    size, _ = read_varint(packed, 0)
    if size > MOST:
        raise UnsupportedBatch(f"the records of a batch have more than {MOST} bytes once decompressed")
    return bytes(pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True))


def _stream(codec: str, packed: memoryview) -> Iterator[bytes]:
    """Without their size, which not every client writes."""
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), codec) as stream:
        while part := stream.read(_AT_ONCE):
            yield bytes(part)
