"""The codecs of record batches (CompressionType), as Java's clients and brokers read and write them.

Brokers refuse other framings with UNKNOWN_SERVER_ERROR, which looks retriable: an LZ4 frame must have independent
blocks (Lz4BlockOutputStream), Snappy is framed as snappy-java does (SnappyOutputStream), or not at all.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CorruptBatch, UnsupportedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
MOST: Final = 128 << 20
"""Bytes that the records of one batch may have: more of them are not read (a batch of 1 MB can hold 1 GB of zeros)."""
_LEAST_ROOM: Final = 64 << 10
_USUAL_RATIO: Final = 8
_NO_ROOM: Final = "failed to write whole buffer"
"""What cramjam's streams say of an output that is too small; of damage they say something else."""
_GZIP_WINDOW: Final = 31
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL + Struct(">ii").pack(1, 1)
"""Its version, and the least version that can read it."""
_SIZE: Final = Struct(">i")
_BLOCK: Final = 32 << 10
_LZ4_LEVEL: Final = 1
_ZSTD_LEVEL: Final = 3


@cache
def _cramjam() -> ModuleType:
    """Loaded when it is first needed: executors of Spark jobs import this module, and have no cramjam."""
    try:
        return import_module("cramjam")
    except ModuleNotFoundError as missing:
        raise UnsupportedBatch("LZ4, Snappy and Zstandard need the package cramjam here") from missing


def compressed(codec: int, records: bytes) -> bytes:
    """`records` as a batch of that codec has them.

    Raises:
        UnsupportedBatch: an unknown codec.
    """
    if codec == NONE:
        return records
    if codec == GZIP:
        squeeze = zlib.compressobj(level=6, wbits=_GZIP_WINDOW)
        return squeeze.compress(records) + squeeze.flush()
    if codec == SNAPPY:
        return b"".join(_snappy_blocks(records))
    if codec == LZ4:
        frame = _cramjam().lz4.Compressor(level=_LZ4_LEVEL, block_linked=False, content_checksum=False)
        frame.compress(records)
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(_cramjam().zstd.compress(records, _ZSTD_LEVEL))
    raise UnsupportedBatch(f"unknown codec {codec}")


def _snappy_blocks(records: bytes) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for at in range(0, len(records), _BLOCK):
        block = bytes(_cramjam().snappy.compress_raw(records[at : at + _BLOCK]))
        yield _SIZE.pack(len(block)) + block


def decompressed(codec: int, packed: memoryview) -> bytes:
    """The records of a batch.

    Raises:
        CorruptBatch: they are not what the codec writes.
        UnsupportedBatch: an unknown codec, or more than `MOST` bytes.
    """
    try:
        return _decompressed(codec, bytes(packed))
    except (_cramjam().DecompressionError, zlib.error, ValueError) as broken:
        raise CorruptBatch(f"records cannot be decompressed: {broken}") from broken


def all_decompressed(codec: int, packed: Sequence[memoryview]) -> bytes:
    """The records of batches of one codec, one behind the other; for many small ones much cheaper than one by one.

    Frames of LZ4 and Zstandard may be concatenated. To open one of LZ4 costs 5 µs, to open a thousand at once 100.

    Raises:
        CorruptBatch, UnsupportedBatch: as `decompressed`; `MOST` is for all of them together.
    """
    if codec in {GZIP, SNAPPY}:
        return b"".join(decompressed(codec, each) for each in packed)
    return decompressed(codec, memoryview(b"".join(packed)))


def _decompressed(codec: int, packed: bytes) -> bytes:
    if codec == NONE:
        return packed
    if codec == GZIP:
        return b"".join(_gzip_members(packed))
    if codec == SNAPPY:
        return b"".join(_snappy_parts(packed))
    if codec == LZ4:
        return _within(_cramjam().lz4.decompress_into, packed)
    if codec == ZSTD:
        return _within(_cramjam().zstd.decompress_into, packed)
    raise UnsupportedBatch(f"unknown codec {codec}")


def _within(decompress_into: Callable[[bytes, bytearray], int], packed: bytes) -> bytes:
    """Frames do not always say how large they become, so room is made until it suffices."""
    room = min(MOST, max(_LEAST_ROOM, _USUAL_RATIO * len(packed)))
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: decompress_into(packed, out)])
        except _cramjam().DecompressionError as broken:
            if str(broken) != _NO_ROOM:
                raise
        if room == MOST:
            raise _too_large()
        room = min(MOST, _USUAL_RATIO * room)


def _too_large() -> UnsupportedBatch:
    return UnsupportedBatch(f"the records of a batch have more than {MOST} bytes once decompressed")


def _gzip_members(packed: bytes) -> Iterator[bytes]:
    left = MOST
    while packed:
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        part = member.decompress(packed, left + 1)
        left -= len(part)
        if left < 0:
            raise _too_large()
        if not member.eof:
            raise CorruptBatch("records cannot be decompressed: they end within a gzip member")
        yield part
        packed = member.unused_data


def _snappy_parts(packed: bytes) -> Iterator[bytes]:
    left = MOST
    for block in _blocks(packed):
        left -= _cramjam().snappy.decompress_raw_len(block)
        if left < 0:
            raise _too_large()
        yield bytes(_cramjam().snappy.decompress_raw(block))


def _blocks(packed: bytes) -> Iterator[bytes]:
    """Those of snappy-java; of other clients one block without a frame."""
    if not packed.startswith(_XERIAL):
        yield packed
        return
    at = len(_XERIAL_HEADER)
    while at < len(packed):
        if len(packed) - at < _SIZE.size:
            raise CorruptBatch("records cannot be decompressed: they end within a snappy block")
        size = _SIZE.unpack_from(packed, at)[0]
        at += _SIZE.size
        if not 0 <= size <= len(packed) - at:
            raise CorruptBatch(f"records cannot be decompressed: a snappy block of {size} bytes")
        yield packed[at : at + size]
        at += size
