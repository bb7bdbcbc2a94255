"""The codecs, against the reader of the Spark jobs (pyarrow), which shares no code with them."""

from __future__ import annotations

import tracemalloc
import zlib
from importlib import import_module
from random import Random
from struct import pack
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import CorruptBatch, UnsupportedBatch
from tanist.kafka.protocol import compression
from tanist.kafka.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compressed, decompressed
from tanist.spark.codecs import decompressed as independently

if TYPE_CHECKING:
    from collections.abc import Sequence

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
RECORDS: Sequence[bytes] = (b"", b"x", b"tanist" * 30_000, Random(1).randbytes(200_000))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("records", RECORDS, ids=["empty", "one", "long", "random"])
def test_what_is_compressed_is_read_by_others_and_by_us(codec: int, records: bytes) -> None:
    packed = memoryview(compressed(codec, records))
    assert decompressed(codec, packed) == records
    assert independently(codec, packed) == records


def test_lz4_blocks_are_independent() -> None:
    """Brokers answer linked blocks with UNKNOWN_SERVER_ERROR: bit 5 of the frame's flags."""
    assert compressed(LZ4, b"x" * 200_000)[4] & 0x20


def test_snappy_is_framed_as_by_snappy_java() -> None:
    assert compressed(SNAPPY, b"x" * 100).startswith(b"\x82SNAPPY\0" + pack(">ii", 1, 1))


def test_other_framings_are_read() -> None:
    codec = import_module("pyarrow").Codec
    data = b"tanist" * 30_000
    assert decompressed(SNAPPY, memoryview(bytes(codec("snappy").compress(data, asbytes=True)))) == data
    assert decompressed(LZ4, memoryview(bytes(codec("lz4").compress(data, asbytes=True)))) == data
    assert decompressed(GZIP, memoryview(zlib.compress(b"ab", wbits=31) + zlib.compress(b"c", wbits=31))) == b"abc"


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_is_damaged_is_corrupt(codec: int) -> None:
    packed = bytearray(compressed(codec, Random(2).randbytes(5_000)))
    for cut in (3, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatch):
            decompressed(codec, memoryview(packed[:cut]))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_becomes_too_large_is_refused_before_it_does(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB can hold 1 GB of zeros: the worker would be killed, and every other one that takes the partition over."""
    monkeypatch.setattr(compression, "MOST", 3 << 20)
    assert decompressed(codec, memoryview(compressed(codec, bytes(3 << 20)))) == bytes(3 << 20)
    hostile = memoryview(compressed(codec, bytes(100_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedBatch, match="more than 3145728 bytes"):
            decompressed(codec, hostile)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedBatch, match="codec 7"):
        compressed(7, b"")
    with pytest.raises(UnsupportedBatch, match="codec 7"):
        decompressed(7, memoryview(b""))
